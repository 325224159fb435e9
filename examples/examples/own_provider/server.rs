//! A server on this machine with a made-up API for models. Its model repeats what tools say.

use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Starts the server and returns its base URL. It ends with the runtime.
pub(crate) async fn start() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let Ok(body) = read(&mut socket).await else { continue };
            let (kind, body) = answer(&body);
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            let _ = socket.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await;
        }
    });
    Ok(url)
}

/// Reads a request and returns its body.
async fn read(socket: &mut TcpStream) -> io::Result<Value> {
    let mut reader = BufReader::new(socket);
    let mut length = 0;
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
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await?;
    Ok(serde_json::from_slice(&body)?)
}

/// Returns the type and the body of a response: an object, or events with pieces of it.
fn answer(request: &Value) -> (&'static str, String) {
    let last = request["messages"].as_array().and_then(|messages| messages.last());
    let said = last.filter(|last| last["role"] == "tool").and_then(|last| last["text"].as_str());
    let pieces = match said {
        Some(said) => vec![json!({"text": "The tool says: "}), json!({"text": said})],
        None => {
            let name = &request["tools"][0]["name"];
            let call = json!({"id": "a/1", "name": name, "arguments": r#"{"city": "Oslo"}"#});
            vec![json!({"calls": [call]})]
        }
    };
    let end = json!({"stop": ["end", 20, 5]});
    if request["stream"] == true {
        let events = pieces.iter().chain([&end]).map(|event| format!("data: {event}\n\n"));
        return ("text/event-stream", events.collect());
    }
    let mut whole = end;
    let texts = pieces.iter().filter_map(|piece| piece["text"].as_str());
    whole["text"] = texts.collect::<String>().into();
    whole["calls"] = pieces[0].get("calls").cloned().unwrap_or(json!([]));
    ("application/json", whole.to_string())
}
