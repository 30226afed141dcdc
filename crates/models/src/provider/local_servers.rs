//! Finds model servers on this machine. A server is identified by its responses.
//!
//! Only [`LocalServers::probe`] sends requests, and only to the given addresses. By default, the
//! addresses are the usual ports on loopback.

use futures::join;
use serde_json::Value;
use tokio::time::timeout;
use url::Url;

use super::{
    Provider, ProviderSettings,
    http::{OnBodyOverLimit, client, read_body_within_limit},
    model_list::is_displayable_name,
};
use crate::limits;

/// Addresses at which local servers may run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalServers {
    /// Base URL of Ollama.
    pub ollama: String,
    /// Base URL of llama.cpp's server.
    pub llama_cpp: String,
    /// Base URL of LM Studio.
    pub lm_studio: String,
}

impl Default for LocalServers {
    fn default() -> Self {
        Self {
            ollama: "http://127.0.0.1:11434".to_owned(),
            llama_cpp: "http://127.0.0.1:8080".to_owned(),
            lm_studio: "http://127.0.0.1:1234".to_owned(),
        }
    }
}

impl LocalServers {
    /// Probes all addresses at once. Returns the servers that identify themselves and have a model,
    /// in the order of the fields of `LocalServers`. The probe takes at most 0.6 s.
    pub async fn probe(&self) -> Vec<ProviderSettings> {
        let (ollama, llama_cpp, lm_studio) = join!(
            probe_ollama(&self.ollama),
            probe_llama_cpp(&self.llama_cpp),
            probe_lm_studio(&self.lm_studio)
        );
        let found = [ollama, llama_cpp, lm_studio].into_iter().flatten();
        found.filter(|it| is_displayable_name(&it.model)).collect()
    }
}

/// Probes Ollama, which reports its version. Prefers a loaded model over a model that is only on
/// disk.
async fn probe_ollama(base: &str) -> Option<ProviderSettings> {
    get_json(base, "/api/version").await?.get("version")?.as_str()?;
    let (loaded, stored) = join!(get_json(base, "/api/ps"), get_json(base, "/api/tags"));
    let first = |list: Option<Value>| list?.pointer("/models/0").cloned();
    let model = first(loaded).or_else(|| first(stored))?;
    let name = model.get("name")?.as_str()?;
    Some(ProviderSettings {
        base_url: Some(base.to_owned()),
        context_tokens: model.get("context_length").and_then(Value::as_u64),
        ..ProviderSettings::new(Provider::Ollama, name)
    })
}

/// Probes llama.cpp, which is identified by the owner that it reports for its only model.
async fn probe_llama_cpp(base: &str) -> Option<ProviderSettings> {
    let (models, properties) = join!(get_json(base, "/v1/models"), get_json(base, "/props"));
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
async fn probe_lm_studio(base: &str) -> Option<ProviderSettings> {
    let models = get_json(base, "/api/v0/models").await?;
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

async fn get_json(base: &str, path: &str) -> Option<Value> {
    let url = Url::parse(&format!("{base}{path}")).ok()?;
    let client = client::client_for_url(&url, None).await.ok()?;
    let answer = async {
        let response = client.get(url).send().await.ok()?.error_for_status().ok()?;
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
    use crate::provider::test_server::{format_response, serve_responses};

    fn json_response(body: &Value) -> String {
        format_response("200 OK", "content-type: application/json", &body.to_string())
    }

    /// Returns an address on which no server listens.
    async fn unused_address() -> String {
        serve_responses(Vec::new()).await.0
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
        let found = async |servers: LocalServers| {
            let found = servers.probe().await.into_iter().next()?;
            Some((found.provider, found.model, found.base_url.unwrap(), found.context_tokens))
        };
        let of = async |answers: Vec<String>| serve_responses(answers).await.0;
        let (no, other) = (unused_address().await, of(vec![not_it.clone(), not_it]).await);

        let url = of(vec![version, loaded.clone(), loaded]).await;
        let servers =
            LocalServers { ollama: url.clone(), llama_cpp: no.clone(), lm_studio: no.clone() };
        assert_eq!(
            found(servers).await,
            Some((Provider::Ollama, "qwen3:4b".into(), url, Some(8192)))
        );

        let url = of(both.to_vec()).await;
        let servers = LocalServers { ollama: other, llama_cpp: url.clone(), lm_studio: no.clone() };
        let url = format!("{url}/v1");
        assert_eq!(found(servers).await, Some((Provider::OpenAi, "smol".into(), url, None)));

        let url = of(vec![lm_studio.clone()]).await;
        let servers =
            LocalServers { ollama: no.clone(), llama_cpp: no.clone(), lm_studio: url.clone() };
        let url = format!("{url}/v1");
        assert_eq!(found(servers).await, Some((Provider::OpenAi, "small".into(), url, Some(4096))));

        for no_server in [of(vec![hidden]).await, no.clone()] {
            let servers =
                LocalServers { ollama: no.clone(), llama_cpp: no.clone(), lm_studio: no_server };
            assert_eq!(found(servers).await, None);
        }
    }
}
