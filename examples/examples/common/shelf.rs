//! A server on this machine that stores request bodies by path.

use std::collections::BTreeMap;
use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// Starts the server and returns its URL. It ends with the runtime.
pub(crate) async fn start() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    tokio::spawn(async move {
        let mut shelf = BTreeMap::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            let Ok((request, body)) = read(&mut socket).await else { continue };
            let (status, body) = answer(&mut shelf, &request, body);
            let head = format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            let _ = socket.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await;
        }
    });
    Ok(url)
}

/// Reads a request, and returns its first line and its body.
async fn read(socket: &mut tokio::net::TcpStream) -> io::Result<(String, String)> {
    let mut reader = BufReader::new(socket);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).await?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).await?;
    Ok((first, String::from_utf8_lossy(&body).into_owned()))
}

fn answer(
    shelf: &mut BTreeMap<String, String>,
    request: &str,
    body: String,
) -> (&'static str, String) {
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = path.split('?').next().unwrap_or("").trim_start_matches("/v1/").to_owned();
    match (method, shelf.get(&path)) {
        ("PUT", _) => {
            shelf.insert(path, body.clone());
            ("200 OK", body)
        }
        ("POST", _) => {
            let path = format!("{path}/{}", shelf.len() + 1);
            shelf.insert(path.clone(), body);
            ("201 Created", format!(r#"{{"path": "{path}"}}"#))
        }
        ("GET", Some(there)) => ("200 OK", there.clone()),
        ("DELETE", Some(_)) => {
            shelf.remove(&path);
            ("204 No Content", String::new())
        }
        _ => ("404 Not Found", r#"{"message": "there is nothing here"}"#.to_owned()),
    }
}
