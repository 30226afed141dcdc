//! From settings to a model: which dialect it speaks, and one reply of it.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use futures::{StreamExt as _, stream};
use rig_core::{
    DynModel,
    completion::{CompletionRequest, GenerationOptions},
    operation::Completion,
    providers::{
        anthropic::AnthropicConfig,
        gemini::GeminiConfig,
        ollama::OllamaConfig,
        openai::{
            OpenAIConfig,
            wire::{self, Auth, Dialect, OutputCap, Quirks},
        },
    },
    streaming::{CompletionStream, Item},
};

use super::{Provider, Settings, encode, fault, hear::Hearing, http::Http, spec};
use crate::model::{Event, Model, Reply, Request, Traits};

/// Makes a model of its settings. Costs next to nothing: no file is read and no connection made
/// before the first reply. All models share the HTTP clients of the process.
#[must_use]
pub fn connect(settings: Settings) -> Arc<dyn Model> {
    let name = format!("{}/{}", settings.provider.name(), settings.model);
    Arc::new(Remote(Arc::new(Inner { name: name.into(), settings, built: OnceLock::new() })))
}

#[derive(Clone, Debug)]
struct Remote(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: Arc<str>,
    settings: Settings,
    built: OnceLock<Built>,
}

/// What the first use makes, and the catalogue is read for.
#[derive(Debug)]
struct Built {
    model: DynModel<Completion>,
    vendor: &'static str,
    traits: Traits,
}

impl Model for Remote {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn traits(&self) -> Traits {
        self.0.built().traits
    }

    fn reply(&self, request: Request) -> Reply {
        let inner = self.0.clone();
        stream::once(async move { inner.start(&request) }).flatten().boxed()
    }
}

impl Inner {
    fn built(&self) -> &Built {
        self.built.get_or_init(|| {
            let (model, vendor) = dialect(&self.settings);
            let spec = spec::find(&self.settings, vendor);
            Built { model, vendor, traits: spec::traits(&self.settings, spec) }
        })
    }

    fn start(self: Arc<Self>, request: &Request) -> Reply {
        let built = self.built();
        let mut told = encode::request(request, &self.name, built.traits);
        self.choose(&mut told, request, built);
        match built.model.stream(told) {
            Ok(reply) => {
                let reading = Reading {
                    inner: self,
                    reply: Some(reply),
                    hearing: Hearing::default(),
                    heard: VecDeque::new(),
                };
                stream::unfold(reading, |mut reading| async move {
                    Some((reading.next().await?, reading))
                })
                .boxed()
            }
            Err(error) => {
                let error = fault::of(&error, self.settings.key.as_ref());
                stream::iter([Event::Error(error)]).boxed()
            }
        }
    }

    /// Sets what is not part of the messages.
    fn choose(&self, told: &mut CompletionRequest, request: &Request, built: &Built) {
        let options = std::mem::replace(&mut told.options, GenerationOptions::new());
        let reasoning = request.effort.and_then(|effort| {
            spec::reasoning(&self.settings, spec::find(&self.settings, built.vendor), effort)
        });
        told.options = match reasoning {
            Some(reasoning) => options.reasoning(reasoning),
            None => options,
        };
        if let (Provider::Ollama, Some(tokens)) =
            (self.settings.provider, built.traits.context_tokens)
        {
            // Ollama cuts what is over its own, small, default without a word.
            told.additional_params = Some(serde_json::json!({ "num_ctx": tokens }));
        }
    }
}

/// One reply while it comes.
struct Reading {
    inner: Arc<Inner>,
    reply: Option<CompletionStream>,
    hearing: Hearing,
    heard: VecDeque<Event>,
}

impl Reading {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.heard.pop_front() {
                return Some(event);
            }
            let reply = self.reply.as_mut()?;
            match reply.next().await {
                Some(Ok(Item::Event(event))) => self.heard.extend(self.hearing.hear(event)),
                Some(Ok(Item::Unknown(_))) => {}
                Some(Err(error)) => {
                    let error = fault::of(&error, self.inner.settings.key.as_ref());
                    self.heard.push_back(Event::Error(error));
                    self.reply = None;
                }
                None => {
                    self.heard = self.hearing.end(&reply.partial(), &self.inner.name);
                    self.reply = None;
                }
            }
        }
    }
}

/// Tokens of a reply of a model that the library does not know, where the provider wants a number.
const REPLY_TOKENS: u64 = 8_192;

/// Chooses the dialect, and names the vendor whose models the catalogue is asked for. No key goes
/// in: [`Http`] adds it to each request.
fn dialect(settings: &Settings) -> (DynModel<Completion>, &'static str) {
    let http = Http::new(settings);
    let model = &*settings.model;
    let base_url = settings.base_url.as_deref().map(|url| url.trim_end_matches('/'));
    match settings.provider {
        Provider::Anthropic => {
            let config = AnthropicConfig::new("");
            let config = match base_url {
                Some(url) => config.with_base_url(url),
                None => config,
            };
            let mut model = config.connect(http).completion(model);
            model.wire.prompt_caching = true;
            model.wire.default_max_tokens.get_or_insert(REPLY_TOKENS);
            (model.erase(), rig_core::providers::anthropic::PROVIDER_NAME)
        }
        Provider::Gemini => {
            let config = GeminiConfig::new("");
            let config = match base_url {
                Some(url) => config.with_base_url(url.trim_end_matches("/v1beta")),
                None => config,
            };
            let vendor = rig_core::providers::gemini::PROVIDER_NAME;
            (config.connect(http).completion(model).erase(), vendor)
        }
        Provider::Ollama => {
            let config = OllamaConfig::new();
            let config = match base_url {
                Some(url) => config.with_base_url(url.trim_end_matches("/v1")),
                None => config,
            };
            let vendor = rig_core::providers::ollama::PROVIDER_NAME;
            (config.connect(http).native_completion(model).erase(), vendor)
        }
        Provider::OpenAi => {
            let (config, vendor) = openai(base_url);
            (config.connect(http).chat(model).erase(), vendor)
        }
        Provider::OpenAiResponses => {
            let (config, vendor) = openai(base_url);
            (config.connect(http).responses(model).erase(), vendor)
        }
    }
}

/// Chooses among the dialects of OpenAI's by the host, if it is one that the library knows.
fn openai(base_url: Option<&str>) -> (OpenAIConfig, &'static str) {
    let Some(url) = base_url else {
        return (OpenAIConfig::new(""), wire::OPENAI.name);
    };
    let host = |url: &str| Some(url::Url::parse(url).ok()?.host_str()?.to_owned());
    let is_local = |host: &str| host == "localhost";
    let known = host(url).filter(|name| !is_local(name)).and_then(|name| {
        wire::all().find(|dialect| host(dialect.base_url).as_ref() == Some(&name))
    });
    let Some(dialect) = known else {
        return (OpenAIConfig::with_key(&COMPATIBLE, "").with_base_url(versioned(url)), "openai");
    };
    // Some dialects have the version in their paths.
    let has_version = dialect.quirks.completion_path.starts_with("/v1/");
    let url = if has_version { url.trim_end_matches("/v1") } else { url };
    (OpenAIConfig::with_key(dialect, "").with_base_url(url), dialect.name)
}

/// Completes an address that is a host alone: every server has its dialect below `/v1`.
fn versioned(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(parsed) if parsed.path() == "/" => format!("{url}/v1"),
        _ => url.to_owned(),
    }
}

/// A server that the library does not know: llama.cpp, vLLM, LM Studio and many more.
const COMPATIBLE: Dialect = Dialect::gateway("compatible", "", "").with_quirks(compatible());

const fn compatible() -> Quirks {
    let mut quirks = Quirks::openai();
    quirks.auth = Auth::OptionalBearer;
    quirks.output_cap = OutputCap::OpenAiReasoningFamilies;
    quirks
}

#[cfg(test)]
mod tests;
