//! An authorization server over loopback, and an MCP server that asks it for the validity of tokens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Request, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// A response in place of the usual one.
#[derive(Clone)]
pub(crate) enum Odd {
    Text(u16, String),
    Redirect(u16, String),
    /// No response at all.
    Silent,
}

/// A request that was received.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) fields: HashMap<String, String>,
}

/// What the two servers know.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) asked: Vec<Asked>,
    /// The odd responses, by path.
    pub(crate) odd: HashMap<String, Odd>,
    /// Fields of the metadata of both kinds that differ from the usual ones.
    pub(crate) changed: Value,
    /// The codes, with the fields of their request.
    codes: HashMap<String, HashMap<String, String>>,
    /// The access tokens that are valid, with their scopes.
    pub(crate) access: HashMap<String, String>,
    /// The refresh tokens that are valid, with their scopes.
    pub(crate) refresh: HashMap<String, String>,
    pub(crate) refreshes: usize,
    pub(crate) registrations: usize,
    /// The lifetimes of the next tokens. Default: an hour.
    pub(crate) lifetimes: Vec<u64>,
    /// Whether the clients get a secret, and have to send it.
    pub(crate) has_secrets: bool,
    /// The scope that a call needs.
    pub(crate) needed: Option<String>,
    count: usize,
}

impl Known {
    fn fresh(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}-made-up-{:04}", self.count)
    }

    fn tokens(&mut self, scope: &str) -> Value {
        let (access, refresh) = (self.fresh("access"), self.fresh("refresh"));
        self.access.insert(access.clone(), scope.to_owned());
        self.refresh.insert(refresh.clone(), scope.to_owned());
        let lifetime = if self.lifetimes.is_empty() { 3600 } else { self.lifetimes.remove(0) };
        json!({"access_token": access, "token_type": "bearer", "expires_in": lifetime,
            "refresh_token": refresh, "scope": scope, "id_token": "id-made-up"})
    }
}

#[derive(Clone)]
pub(crate) struct Authorization {
    /// The URL of the MCP server.
    pub(crate) server: String,
    pub(crate) issuer: String,
    known: Arc<Mutex<Known>>,
    /// Notified at each request without a response.
    pub(crate) silent: Arc<Notify>,
}

impl Authorization {
    pub(crate) async fn start() -> Self {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0"));
        let [at, resource] = listeners;
        let (at, resource) = (at.await.unwrap(), resource.await.unwrap());
        let here = Self {
            server: format!("http://{}/mcp", resource.local_addr().unwrap()),
            issuer: format!("http://{}", at.local_addr().unwrap()),
            known: Arc::default(),
            silent: Arc::default(),
        };
        for listener in [at, resource] {
            let routes = Router::new().fallback(respond).with_state(here.clone());
            tokio::spawn(axum::serve(listener, routes).into_future());
        }
        here
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap()
    }

    pub(crate) fn set_odd(&self, path: &str, odd: Odd) {
        self.known().odd.insert(path.to_owned(), odd);
    }

    /// The requests with this path.
    pub(crate) fn asked(&self, path: &str) -> Vec<Asked> {
        let known = self.known();
        known.asked.iter().filter(|asked| asked.path == path).cloned().collect()
    }

    /// The user logs in with a browser, which returns the address that it is sent to.
    pub(crate) async fn browser(&self, url: &str) -> String {
        let browser = reqwest::Client::builder().no_proxy();
        let browser = browser.redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let response = browser.get(url).send().await.unwrap();
        response.headers()["location"].to_str().unwrap().to_owned()
    }

    fn metadata(&self, usual: Value) -> Value {
        let mut metadata = usual;
        if let Some(changed) = self.known().changed.as_object() {
            for (name, value) in changed {
                metadata[name] = value.clone();
            }
        }
        metadata
    }

    fn authorize(&self, fields: HashMap<String, String>) -> Response<Body> {
        let code = self.known().fresh("code");
        let mut address = Url::parse(&fields["redirect_uri"]).unwrap();
        address
            .query_pairs_mut()
            .append_pair("code", &code)
            .append_pair("state", &fields["state"])
            .append_pair("iss", &self.issuer);
        self.known().codes.insert(code, fields);
        answer(302, json!({}), &[("location", address.as_str())])
    }

    fn token(&self, fields: &HashMap<String, String>, headers: &HeaderMap) -> Response<Body> {
        let refused = |error: &str| answer(400, json!({"error": error}), &[]);
        let mut known = self.known();
        if fields.get("resource") != Some(&self.server) {
            return refused("invalid_target");
        }
        if known.has_secrets && !headers.contains_key("authorization") {
            return refused("invalid_client");
        }
        if fields["grant_type"] == "refresh_token" {
            known.refreshes += 1;
            let Some(scope) = known.refresh.remove(&fields["refresh_token"]) else {
                // Somebody used a refresh token twice.
                known.refresh.clear();
                known.access.clear();
                return refused("invalid_grant");
            };
            let tokens = known.tokens(&scope);
            return answer(200, tokens, &[]);
        }
        let Some(asked) = known.codes.remove(&fields["code"]) else {
            return refused("invalid_grant");
        };
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&fields["code_verifier"]));
        let is_same = |name: &str| asked.get(name) == fields.get(name);
        if asked["code_challenge"] != challenge || !is_same("redirect_uri") || !is_same("resource")
        {
            return refused("invalid_grant");
        }
        let scope = asked.get("scope").cloned().unwrap_or_default();
        answer(200, known.tokens(&scope), &[])
    }

    fn mcp(&self, headers: &HeaderMap, message: &Value) -> Response<Body> {
        let origin = self.server.trim_end_matches("/mcp");
        let challenge = format!(
            "Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\""
        );
        let token = headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer "));
        let known = self.known();
        let Some(scopes) = token.and_then(|token| known.access.get(token)) else {
            // An echo of the token, which no error may show.
            let said = json!({"error": format!("not valid: {token:?}")});
            return answer(401, said, &[("www-authenticate", &challenge)]);
        };
        let is_call = message["method"] == "tools/call";
        let needed = known.needed.as_ref().filter(|_| is_call);
        if let Some(needed) = needed.filter(|needed| !scopes.contains(needed.as_str())) {
            let challenge =
                format!("{challenge}, error=\"insufficient_scope\", scope=\"{needed}\"");
            return answer(403, json!({}), &[("www-authenticate", &challenge)]);
        }
        let result = match message["method"].as_str().unwrap_or_default() {
            "server/discover" => json!({"resultType": "complete",
                "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private"}),
            "tools/list" => json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "tools": [{"name": "hello", "inputSchema": {"type": "object"}}]}),
            "tools/call" => json!({"resultType": "complete",
                "content": [{"type": "text", "text": "Hello!"}], "isError": false}),
            _ => return answer(202, json!({}), &[]),
        };
        answer(200, json!({"jsonrpc": "2.0", "id": message["id"], "result": result}), &[])
    }
}

async fn respond(State(here): State<Authorization>, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let text = String::from_utf8_lossy(&body).into_owned();
    let message: Value = serde_json::from_str(&text).unwrap_or_default();
    let query = head.uri.query().unwrap_or_default();
    let fields = Url::parse(&format!("http://127.0.0.1/?{query}&{text}")).unwrap();
    let fields: HashMap<String, String> = fields.query_pairs().into_owned().collect();
    let path = head.uri.path().to_owned();
    let asked = Asked { path: path.clone(), headers: head.headers.clone(), fields: fields.clone() };
    here.known().asked.push(asked);
    let odd = here.known().odd.get(&path).cloned();
    match odd {
        Some(Odd::Text(status, text)) => {
            return Response::builder().status(status).body(Body::from(text)).unwrap();
        }
        Some(Odd::Redirect(status, to)) => return answer(status, json!({}), &[("location", &to)]),
        Some(Odd::Silent) => {
            here.silent.notify_one();
            return std::future::pending().await;
        }
        None => {}
    }
    let issuer = &here.issuer;
    match path.as_str() {
        "/.well-known/oauth-protected-resource/mcp" => {
            let metadata = here.metadata(json!({"resource": here.server,
                "authorization_servers": [issuer], "scopes_supported": ["read"]}));
            answer(200, metadata, &[])
        }
        "/.well-known/oauth-authorization-server" if here.is_issuer(&head.headers) => {
            let metadata = here.metadata(json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
                "registration_endpoint": format!("{issuer}/register"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
                "scopes_supported": ["read", "write", "offline_access"],
            }));
            answer(200, metadata, &[])
        }
        "/register" => {
            let mut known = here.known();
            known.registrations += 1;
            let mut client = message.clone();
            client["client_id"] = known.fresh("client").into();
            if known.has_secrets {
                client["client_secret"] = known.fresh("secret").into();
            }
            answer(201, client, &[])
        }
        "/authorize" => here.authorize(fields),
        "/token" => here.token(&fields, &head.headers),
        "/mcp" => here.mcp(&head.headers, &message),
        _ => answer(404, json!({}), &[]),
    }
}

impl Authorization {
    /// Whether the request is for the authorization server, and not for the MCP server.
    fn is_issuer(&self, headers: &HeaderMap) -> bool {
        let host = headers["host"].to_str().unwrap();
        self.issuer.ends_with(host)
    }
}

fn answer(status: u16, body: Value, headers: &[(&str, &str)]) -> Response<Body> {
    let response = Response::builder().status(status).header("content-type", "application/json");
    let response =
        headers.iter().fold(response, |response, (name, value)| response.header(*name, *value));
    response.body(Body::from(body.to_string())).unwrap()
}
