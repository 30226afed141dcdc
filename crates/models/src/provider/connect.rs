//! Creates a model from settings, and streams its replies.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use futures::{StreamExt as _, stream};
use rig_core::streaming::{CompletionStream, Item};

use super::{
    ProviderSettings, ToolCalling, capabilities, decode::StreamDecoder, dialect::DialectClient,
    encode, errors, options, replay,
};
use crate::{Model, ModelCapabilities, ModelEvent, ModelRequest, ReplyStream, tool_emulation};

/// Creates a model from its settings. Creating a model is cheap, because files are read and
/// connections are opened only for the first reply. All models share the HTTP clients of the
/// process.
#[must_use]
pub fn create_model(settings: ProviderSettings) -> Arc<dyn Model> {
    let name: Arc<str> = settings.provider.model_spec(&settings.model).into();
    let (tools, origin) =
        (settings.tools, replay::replay_origin(&name, settings.base_url.as_deref()));
    let inner = RemoteModelInner { name, origin, settings, resolved: OnceLock::new() };
    let model = Arc::new(RemoteModel(Arc::new(inner)));
    match tools {
        ToolCalling::Native => model,
        ToolCalling::JsonSchema => tool_emulation::emulate_tools(model),
    }
}

#[derive(Clone, Debug)]
struct RemoteModel(Arc<RemoteModelInner>);

#[derive(Debug)]
struct RemoteModelInner {
    name: Arc<str>,
    /// Identifier of the model and its server, for [`ProviderReplay`](crate::ProviderReplay).
    origin: Arc<str>,
    settings: ProviderSettings,
    resolved: OnceLock<LazyModelParts>,
}

/// The parts of a model that are created at its first use, including the entry in the catalogue.
#[derive(Debug)]
struct LazyModelParts {
    dialect: DialectClient,
    traits: ModelCapabilities,
}

impl Model for RemoteModel {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn capabilities(&self) -> ModelCapabilities {
        self.0.get_or_create_parts().traits
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        let inner = self.0.clone();
        stream::once(async move { inner.create_reply_stream(request) }).flatten().boxed()
    }
}

impl RemoteModelInner {
    fn get_or_create_parts(&self) -> &LazyModelParts {
        self.resolved.get_or_init(|| {
            let dialect = DialectClient::from_settings(&self.settings);
            let spec = capabilities::find_catalogue_spec(&self.settings, dialect.vendor);
            let traits = capabilities::model_capabilities(&self.settings, spec);
            LazyModelParts { dialect, traits }
        })
    }

    fn create_reply_stream(self: Arc<Self>, request: ModelRequest) -> ReplyStream {
        let built = self.get_or_create_parts();
        let (mut completion, pending) = encode::encode_request(
            &request,
            &self.origin,
            built.traits,
            built.dialect.http.cache(),
        );
        options::set_request_options(
            &mut completion,
            &request,
            &self.settings,
            &built.dialect,
            built.traits,
        );
        match built.dialect.model_for_request(&self.settings.model, pending).stream(completion) {
            Ok(reply) => {
                let reading = ReplyReader {
                    inner: self,
                    _request: request,
                    reply: Some(reply),
                    decoder: StreamDecoder::default(),
                    pending: VecDeque::new(),
                };
                stream::unfold(reading, |mut reading| async move {
                    Some((reading.next_event().await?, reading))
                })
                .boxed()
            }
            Err(error) => {
                let events = errors::final_events(&error, self.settings.key.as_ref());
                stream::iter(events).boxed()
            }
        }
    }
}

/// A reply that is being received.
struct ReplyReader {
    inner: Arc<RemoteModelInner>,
    /// Keeps the messages alive. When a message is dropped, the cache drops the texts of its
    /// placeholders.
    _request: ModelRequest,
    reply: Option<CompletionStream>,
    decoder: StreamDecoder,
    pending: VecDeque<ModelEvent>,
}

impl ReplyReader {
    async fn next_event(&mut self) -> Option<ModelEvent> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            let reply = self.reply.as_mut()?;
            match reply.next().await {
                Some(Ok(Item::Event(event))) => {
                    self.pending.extend(self.decoder.decode_event(event));
                }
                Some(Ok(Item::Unknown(_))) => {}
                Some(Err(error)) => {
                    let key = self.inner.settings.key.as_ref();
                    self.pending.extend(errors::final_events(&error, key));
                    self.reply = None;
                }
                None => {
                    let RemoteModelInner { origin, settings, .. } = &*self.inner;
                    self.pending =
                        self.decoder.final_events(&reply.partial(), origin, settings.key.as_ref());
                    self.reply = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
