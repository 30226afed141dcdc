//! Finds model servers on this machine. A server is identified by its responses.
//!
//! Only [`LocalServerAddresses::probe`] sends requests, and only to the given addresses. By
//! default, the addresses are the usual ports on loopback.

use std::path::{Path, PathBuf};

use futures::join;
use serde_json::Value;
use tokio::time::timeout;
use url::Url;

use super::{
    ApiKey, Provider, ProviderSettings,
    http::{OnBodyOverLimit, client, read_body_within_limit},
    model_list::is_displayable_name,
};
use crate::limits;

/// Addresses at which local servers may run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalServerAddresses {
    /// Base URL of Ollama.
    pub ollama: String,
    /// API key that is sent to Ollama. `None` if no key is needed.
    pub ollama_key: Option<ApiKey>,
    /// Path of a file (PEM) with additional trusted certificates for Ollama.
    pub ollama_ca_file: Option<PathBuf>,
    /// Base URL of llama.cpp's server.
    pub llama_cpp: String,
    /// Base URL of LM Studio.
    pub lm_studio: String,
}

impl Default for LocalServerAddresses {
    fn default() -> Self {
        Self {
            ollama: "http://127.0.0.1:11434".to_owned(),
            ollama_key: None,
            ollama_ca_file: None,
            llama_cpp: "http://127.0.0.1:8080".to_owned(),
            lm_studio: "http://127.0.0.1:1234".to_owned(),
        }
    }
}

impl LocalServerAddresses {
    /// Probes all addresses at once. Returns the servers that identify themselves and have a model,
    /// in the order of the fields of `LocalServerAddresses`. The settings of Ollama contain the key
    /// and the certificates with which it was probed. The probe takes at most 0.6 s.
    pub async fn probe(&self) -> Vec<ProviderSettings> {
        let (ollama, llama_cpp, lm_studio) = join!(
            self.find_ollama_model(),
            find_llama_cpp_model(&self.llama_cpp),
            find_lm_studio_model(&self.lm_studio)
        );
        let found = [ollama, llama_cpp, lm_studio].into_iter().flatten();
        found.filter(|it| is_displayable_name(&it.model)).collect()
    }

    /// Probes Ollama, which reports its version. Prefers a loaded model over a model that is only
    /// on disk.
    async fn find_ollama_model(&self) -> Option<ProviderSettings> {
        let access = ProbeKeyAndCaFile {
            key: self.ollama_key.as_ref(),
            ca_file: self.ollama_ca_file.as_deref(),
        };
        let get = async |path| get_json(&self.ollama, path, access).await;
        get("/api/version").await?.get("version")?.as_str()?;
        let (loaded, stored) = join!(get("/api/ps"), get("/api/tags"));
        let first = |list: Option<Value>| list?.pointer("/models/0").cloned();
        let model = first(loaded).or_else(|| first(stored))?;
        let name = model.get("name")?.as_str()?;
        Some(ProviderSettings {
            base_url: Some(self.ollama.clone()),
            key: self.ollama_key.clone(),
            ca_file: self.ollama_ca_file.clone(),
            context_tokens: model.get("context_length").and_then(Value::as_u64),
            ..ProviderSettings::new(Provider::Ollama, name)
        })
    }
}

/// The key and the certificates of a probe.
#[derive(Clone, Copy, Default)]
struct ProbeKeyAndCaFile<'a> {
    key: Option<&'a ApiKey>,
    ca_file: Option<&'a Path>,
}

/// Probes llama.cpp, which is identified by the owner that it reports for its only model.
async fn find_llama_cpp_model(base: &str) -> Option<ProviderSettings> {
    let open = ProbeKeyAndCaFile::default();
    let (models, properties) =
        join!(get_json(base, "/v1/models", open), get_json(base, "/props", open));
    let models = models?;
    let model = models.pointer("/data/0").filter(|model| model["owned_by"] == "llamacpp")?;
    let context = properties
        .and_then(|properties| properties.pointer("/default_generation_settings/n_ctx")?.as_u64());
    Some(ProviderSettings {
        base_url: Some(format!("{base}/v1")),
        context_tokens: context,
        ..ProviderSettings::new(Provider::OpenAi, model.get("id")?.as_str()?)
    })
}

/// Probes LM Studio, which reports the loaded model at a path that no other server has.
async fn find_lm_studio_model(base: &str) -> Option<ProviderSettings> {
    let models = get_json(base, "/api/v0/models", ProbeKeyAndCaFile::default()).await?;
    let speaks = |model: &&Value| matches!(model["type"].as_str(), Some("llm" | "vlm"));
    let is_loaded = |model: &&Value| model["state"] == "loaded";
    let models = models.get("data")?.as_array()?;
    let model = models.iter().filter(speaks).find(is_loaded)?;
    Some(ProviderSettings {
        base_url: Some(format!("{base}/v1")),
        context_tokens: model.get("loaded_context_length").and_then(Value::as_u64),
        ..ProviderSettings::new(Provider::OpenAi, model.get("id")?.as_str()?)
    })
}

async fn get_json(base: &str, path: &str, access: ProbeKeyAndCaFile<'_>) -> Option<Value> {
    let url = Url::parse(&format!("{base}{path}")).ok()?;
    let client = client::client_for_url(&url, access.ca_file).await.ok()?;
    let answer = async {
        let request = client.get(url);
        let request = match access.key {
            Some(key) => request.bearer_auth(key.expose()),
            None => request,
        };
        let response = request.send().await.ok()?.error_for_status().ok()?;
        let body =
            read_body_within_limit(response, limits::MAX_ERROR_BODY_BYTES, OnBodyOverLimit::Fail)
                .await
                .ok()?;
        serde_json::from_slice(&body).ok()
    };
    timeout(limits::LOCAL_PROBE_TIMEOUT, answer).await.ok()?
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::test_server::{format_response, serve_over_tls, serve_responses};

    fn json_response(body: &Value) -> String {
        format_response("200 OK", "content-type: application/json", &body.to_string())
    }

    /// Returns an address on which no server listens.
    async fn unused_address() -> String {
        serve_responses(Vec::new()).await.0
    }

    /// Returns the addresses of Ollama, llama.cpp and LM Studio.
    fn at(ollama: &str, llama_cpp: &str, lm_studio: &str) -> LocalServerAddresses {
        LocalServerAddresses {
            ollama: ollama.to_owned(),
            llama_cpp: llama_cpp.to_owned(),
            lm_studio: lm_studio.to_owned(),
            ..LocalServerAddresses::default()
        }
    }

    #[tokio::test]
    async fn ollama_is_probed_with_its_key_and_no_other_server_gets_the_key() {
        let version = json_response(&json!({ "version": "0.12.1" }));
        let models = json_response(&json!({ "models": [{ "name": "qwen3:4b" }] }));
        let (ollama, asked) = serve_responses(vec![version, models.clone(), models]).await;
        let nothing = json_response(&json!({}));
        let (other, asked_other) = serve_responses(vec![nothing.clone(), nothing]).await;
        let mut servers = at(&ollama, &other, &unused_address().await);
        servers.ollama_key = ApiKey::from_nonempty_text("sk-of-ollama");
        let found = servers.probe().await;
        assert_eq!(found[0].key, servers.ollama_key);
        for request in asked.await.unwrap() {
            let head = &request.head;
            assert!(head.contains("authorization: Bearer sk-of-ollama"), "{head}");
        }
        for request in asked_other.await.unwrap() {
            assert!(!request.head.contains("sk-of-ollama"), "{}", request.head);
        }
    }

    #[tokio::test]
    async fn ollama_is_probed_with_the_configured_certificates() {
        let answer = json_response(&json!({ "version": "1", "models": [{ "name": "qwen3:4b" }] }));
        let (url, pem) = serve_over_tls(answer).await;
        let folder = tempfile::tempdir().unwrap();
        let ca_file = folder.path().join("ca.pem");
        std::fs::write(&ca_file, pem).unwrap();
        let no = unused_address().await;
        let mut servers = at(&url, &no, &no);
        assert_eq!(servers.probe().await, []);
        servers.ollama_ca_file = Some(ca_file);
        assert_eq!(servers.probe().await.len(), 1);
    }

    #[tokio::test]
    async fn a_server_is_identified_by_its_response() {
        let version = json_response(&json!({ "version": "0.12.1" }));
        let loaded =
            json_response(&json!({ "models": [{ "name": "qwen3:4b", "context_length": 8192 }] }));
        let models = json_response(&json!({ "data": [{ "id": "smol", "owned_by": "llamacpp" }] }));
        // The two requests may arrive in any order; each response is valid for both requests.
        let both = [models.clone(), models];
        let lm_studio = json_response(&json!({ "data": [
            { "id": "embedder", "type": "embeddings", "state": "loaded" },
            { "id": "big", "type": "llm", "state": "not-loaded" },
            { "id": "small", "type": "vlm", "state": "loaded", "loaded_context_length": 4096 },
        ] }));
        let not_it = json_response(&json!({ "hello": "world" }));
        let hidden = json_response(&json!({ "data": [
            { "id": "\u{1b}[2J", "type": "llm", "state": "loaded" },
        ] }));
        let found = async |servers: LocalServerAddresses| {
            let found = servers.probe().await.into_iter().next()?;
            Some((found.provider, found.model, found.base_url.unwrap(), found.context_tokens))
        };
        let of = async |answers: Vec<String>| serve_responses(answers).await.0;
        let (no, other) = (unused_address().await, of(vec![not_it.clone(), not_it]).await);

        let url = of(vec![version, loaded.clone(), loaded]).await;
        let servers = at(&url, &no, &no);
        assert_eq!(
            found(servers).await,
            Some((Provider::Ollama, "qwen3:4b".into(), url, Some(8192)))
        );

        let url = of(both.to_vec()).await;
        let servers = at(&other, &url, &no);
        let url = format!("{url}/v1");
        assert_eq!(found(servers).await, Some((Provider::OpenAi, "smol".into(), url, None)));

        let url = of(vec![lm_studio.clone()]).await;
        let servers = at(&no, &no, &url);
        let url = format!("{url}/v1");
        assert_eq!(found(servers).await, Some((Provider::OpenAi, "small".into(), url, Some(4096))));

        for no_server in [of(vec![hidden]).await, no.clone()] {
            let servers = at(&no, &no, &no_server);
            assert_eq!(found(servers).await, None);
        }
    }
}
