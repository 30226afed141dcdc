//! From settings to a model, and one reply of it.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use futures::{StreamExt as _, stream};
use rig_core::streaming::{CompletionStream, Item};

use super::{
    Settings, ToolCalling, dialect::Dialect, encode, fault, hear::Hearing, params, replay, spec,
};
use crate::{Event, Model, Reply, Request, Traits, json_schema};

/// Makes a model of its settings. Costs next to nothing: no file is read and no connection made
/// before the first reply. All models share the HTTP clients of the process.
#[must_use]
pub fn connect(settings: Settings) -> Arc<dyn Model> {
    let name: Arc<str> = settings.provider.spec(&settings.model).into();
    let (tools, origin) = (settings.tools, replay::origin(&name, settings.base_url.as_deref()));
    let inner = Inner { name, origin, settings, built: OnceLock::new() };
    let model = Arc::new(Remote(Arc::new(inner)));
    match tools {
        ToolCalling::Native => model,
        ToolCalling::JsonSchema => json_schema::wrap(model),
    }
}

#[derive(Clone, Debug)]
struct Remote(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: Arc<str>,
    /// Names it and its server for [`Replay`](crate::Replay).
    origin: Arc<str>,
    settings: Settings,
    built: OnceLock<Built>,
}

/// What the first use makes, and the catalogue is read for.
#[derive(Debug)]
struct Built {
    dialect: Dialect,
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
        stream::once(async move { inner.start(request) }).flatten().boxed()
    }
}

impl Inner {
    fn built(&self) -> &Built {
        self.built.get_or_init(|| {
            let dialect = Dialect::of(&self.settings);
            let spec = spec::find(&self.settings, dialect.vendor);
            let traits = spec::traits(&self.settings, spec);
            Built { dialect, traits }
        })
    }

    fn start(self: Arc<Self>, request: Request) -> Reply {
        let built = self.built();
        let (mut told, telling) =
            encode::request(&request, &self.origin, built.traits, built.dialect.http.memory());
        params::choose(&mut told, &request, &self.settings, &built.dialect, built.traits);
        match built.dialect.model(&self.settings.model, telling).stream(told) {
            Ok(reply) => {
                let reading = Reading {
                    inner: self,
                    _request: request,
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
}

/// One reply while it comes.
struct Reading {
    inner: Arc<Inner>,
    /// What its marks stand for is known as long as somebody holds what they are of.
    _request: Request,
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
                    let Inner { origin, settings, .. } = &*self.inner;
                    self.heard = self.hearing.end(&reply.partial(), origin, settings.key.as_ref());
                    self.reply = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
