//! Tests of model selection with a scripted network.

use std::sync::{Arc, Mutex};

use callboard_models::provider::{ApiKey, Provider, ProviderSettings, ToolCalling};
use callboard_models::{
    ChatMessage, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelStopReason,
    ReplyStream,
};
use futures::future::{BoxFuture, FutureExt as _, ready};
use futures::{StreamExt as _, stream};
use pretty_assertions::assert_eq;

use super::{ConfiguredModels, ModelNetwork};
use crate::config::{Config, Flags};
use crate::key_store::KeyStore;
use callboard_runtime::{MAX_CATALOGUE_CHOICES, ModelCatalogue as _};

/// A network with scripted servers, which records the requests.
#[derive(Debug, Clone, Default)]
struct FakeNetwork(Arc<Mutex<FakeNetworkState>>);

#[derive(Debug, Default)]
struct FakeNetworkState {
    local: Vec<ProviderSettings>,
    listed: Vec<String>,
    asked: Vec<String>,
    connected: Vec<ProviderSettings>,
}

impl FakeNetwork {
    fn with<T>(&self, change: impl FnOnce(&mut FakeNetworkState) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    fn asked(&self) -> Vec<String> {
        self.with(|state| std::mem::take(&mut state.asked))
    }
}

impl ModelNetwork for FakeNetwork {
    fn create_model(&self, settings: ProviderSettings) -> Arc<dyn Model> {
        self.with(|state| state.connected.push(settings.clone()));
        Arc::new(ConnectedModel(settings))
    }

    fn list_models(
        &self,
        settings: ProviderSettings,
    ) -> BoxFuture<'static, Result<Vec<String>, ModelError>> {
        self.with(|state| state.asked.push(format!("models of {}", settings.provider.name())));
        let listed = self.with(|state| state.listed.clone());
        let key = settings.key.as_ref().map_or("", ApiKey::expose);
        let refused = ModelError::new(ModelErrorKind::Auth, "no").with_status(401);
        let is_silent = settings.base_url.is_some_and(|url| url.contains("silent"));
        ready(if key == "wrong" || is_silent { Err(refused) } else { Ok(listed) }).boxed()
    }

    fn find_local_servers(
        &self,
        ollama: ProviderSettings,
    ) -> BoxFuture<'static, Vec<ProviderSettings>> {
        let ProviderSettings { base_url, key, .. } = ollama;
        self.with(|state| state.asked.push(format!("local {}", base_url.unwrap_or_default())));
        let mut local = self.with(|state| state.local.clone());
        let found = local.iter_mut().filter(|found| found.provider == Provider::Ollama);
        found.for_each(|found| found.key.clone_from(&key));
        ready(local).boxed()
    }
}

/// A model that replies with its name, its base URL and its key.
#[derive(Debug)]
struct ConnectedModel(ProviderSettings);

impl Model for ConnectedModel {
    fn name(&self) -> &str {
        &self.0.model
    }

    fn reply(&self, _: ModelRequest) -> ReplyStream {
        let ProviderSettings { provider, model, base_url, key, .. } = &self.0;
        let (url, key) = (base_url.as_deref(), key.as_ref().map(ApiKey::expose));
        let (url, key) = (url.unwrap_or_default(), key.unwrap_or_default());
        let answer = format!("{}/{model} {url} {key}", provider.name());
        stream::iter([ModelEvent::Text(answer), ModelEvent::Stop(ModelStopReason::EndTurn)]).boxed()
    }
}

/// A user with a home folder, an environment and a configuration file.
struct TestUser {
    home: tempfile::TempDir,
    env: Vec<(String, String)>,
    file: &'static str,
}

impl TestUser {
    fn new(env: &[(&str, &str)], file: &'static str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let own = [("HOME", &*home.path().to_string_lossy())];
        let env = env.iter().chain(&own).map(|(name, value)| ((*name).into(), (*value).into()));
        let env = env.collect();
        Self { home, env, file }
    }

    fn keys(&self) -> KeyStore {
        KeyStore::in_file(&self.env)
    }

    fn log_in(&self, provider: Provider, base_url: Option<&str>, key: &str) {
        let (url, key) = (base_url.map(str::to_owned), ApiKey::from_nonempty_text(key).unwrap());
        self.keys().store_key(provider, url, key).unwrap();
    }

    fn choices(&self, fake: &FakeNetwork) -> ConfiguredModels {
        let path = Some(self.home.path().join("config.toml"));
        let config = Config::merge_sources(path, self.file, &self.env, Flags::default()).unwrap();
        ConfiguredModels::new(config, self.keys(), fake.clone())
    }
}

/// Prompts a model as a session does. Returns the notice about the model, and its reply.
async fn prompt(model: &Arc<dyn Model>) -> (Option<String>, String) {
    let notice = model.prepare_for_turn().await;
    let messages = Arc::new(vec![Arc::new(ChatMessage::user("hello"))]);
    let mut reply = model.reply(ModelRequest::new(messages));
    let answer = match reply.next().await.unwrap() {
        ModelEvent::Text(text) => text.lines().next().unwrap_or_default().to_owned(),
        ModelEvent::Error(error) => format!("error: {error}"),
        other => panic!("{other:?}"),
    };
    (notice, answer)
}

fn names(choices: &ConfiguredModels) -> Vec<String> {
    choices.list().into_iter().map(|choice| choice.value).collect()
}

fn local() -> ProviderSettings {
    let base_url = Some("http://127.0.0.1:11434".to_owned());
    ProviderSettings::new(Provider::Ollama, "llama").with_base_url(base_url)
}

const KEYS: [(&str, &str); 3] =
    [("GEMINI_API_KEY", "g-key"), ("OPENAI_API_KEY", "o-key"), ("ANTHROPIC_API_KEY", "a-key")];

/// A test case: the available models, and the expected selection.
#[derive(Clone, Copy)]
struct SelectionCase {
    env: &'static [(&'static str, &'static str)],
    file: &'static str,
    login: Option<(Provider, Option<&'static str>)>,
    local: bool,
    /// Name of the model before the first prompt.
    name: &'static str,
    answer: &'static str,
    why: Option<&'static str>,
    asked: &'static [&'static str],
}

const BASE: SelectionCase = SelectionCase {
    env: &KEYS,
    file: "",
    login: Some((Provider::Gemini, None)),
    local: true,
    name: "direct",
    answer: "",
    why: None,
    asked: &[],
};

const CASES: &[SelectionCase] = &[
    SelectionCase {
        file: "model = 'gemini/mine'",
        name: "gemini/mine",
        answer: "gemini/mine  g-key",
        ..BASE
    },
    SelectionCase {
        name: "anthropic/claude-sonnet-5-5",
        answer: "anthropic/claude-sonnet-5-5  a-key",
        why: Some("because `ANTHROPIC_API_KEY` is set"),
        ..BASE
    },
    SelectionCase {
        env: &[("OPENAI_API_KEY", "o-key")],
        name: "openai-responses/gpt-6-sol",
        answer: "openai-responses/gpt-6-sol  o-key",
        why: Some("because `OPENAI_API_KEY` is set"),
        ..BASE
    },
    SelectionCase {
        env: &[("OPENAI_API_KEY", "o-key")],
        file: "[providers.openai]\nmodels = ['one', 'two']",
        name: "openai/one",
        answer: "openai/one  o-key",
        why: Some("is set"),
        ..BASE
    },
    SelectionCase {
        env: &[("OPENAI_API_KEY", "o-key"), ("OPENAI_BASE_URL", "http://h/v1")],
        answer: "openai/first http://h/v1 o-key",
        why: Some("because `OPENAI_API_KEY` is set"),
        asked: &["models of openai"],
        ..BASE
    },
    SelectionCase {
        env: &[("OPENAI_BASE_URL", "http://h/v1")],
        name: "gemini/gemini-3.8-flash",
        answer: "gemini/gemini-3.8-flash  stored",
        why: Some("because you are logged in to gemini"),
        ..BASE
    },
    SelectionCase {
        env: &[],
        login: Some((Provider::OpenAi, Some("http://s/v1"))),
        answer: "openai/first http://s/v1 stored",
        why: Some("because you are logged in to openai"),
        asked: &["models of openai"],
        ..BASE
    },
    SelectionCase {
        env: &[("OPENAI_BASE_URL", "http://h/v1")],
        login: None,
        answer: "openai/first http://h/v1 ",
        why: Some("because OPENAI_BASE_URL names its server"),
        asked: &["models of openai"],
        ..BASE
    },
    SelectionCase {
        env: &[("OLLAMA_API_KEY", "l-key")],
        login: None,
        answer: "ollama/llama http://127.0.0.1:11434 l-key",
        why: Some("because it answers at http://127.0.0.1:11434"),
        asked: &["local "],
        ..BASE
    },
    SelectionCase {
        env: &[("OLLAMA_HOST", "box")],
        login: None,
        answer: "ollama/llama http://127.0.0.1:11434 ",
        why: Some("because it answers at http://127.0.0.1:11434"),
        asked: &["local http://box:11434"],
        ..BASE
    },
    SelectionCase {
        env: &[],
        login: None,
        local: false,
        answer: "This is no command: `hello`.",
        asked: &["local "],
        ..BASE
    },
];

#[tokio::test]
async fn the_order_is_configuration_key_login_named_server_local_server_direct() {
    for case in CASES {
        let (user, fake) = (TestUser::new(case.env, case.file), FakeNetwork::default());
        if let Some((provider, url)) = case.login {
            user.log_in(provider, url, "stored");
        }
        fake.with(|state| {
            state.local = case.local.then(local).into_iter().collect();
            state.listed = vec!["first".to_owned(), "second".to_owned()];
        });
        let model = user.choices(&fake).create_session_model().unwrap();
        assert_eq!((model.name(), fake.asked()), (case.name, vec![]), "{}", case.answer);
        let (notice, answer) = prompt(&model).await;
        if case.name != "direct" || case.why.is_some() {
            assert_eq!(answer, case.answer);
        }
        assert_eq!(fake.asked(), case.asked, "{answer}");
        match (case.why, &notice) {
            (Some(why), Some(notice)) => assert!(notice.contains(why), "{notice}"),
            (why, notice) => assert!(why.is_none() && notice.is_none(), "{why:?} {notice:?}"),
        }
    }
}

#[tokio::test]
async fn a_model_found_later_replaces_direct_and_stays_selected() {
    let base_url = Some("http://127.0.0.1:8080/v1".to_owned());
    let local = || ProviderSettings::new(Provider::OpenAi, "gguf").with_base_url(base_url.clone());
    let (user, fake) = (TestUser::new(&[], ""), FakeNetwork::default());
    let choices = user.choices(&fake);
    let model = choices.create_session_model().unwrap();
    assert_eq!(prompt(&model).await.0, None);
    assert_eq!(choices.list().len(), 1);

    fake.with(|state| state.local = vec![local()]);
    let (notice, answer) = prompt(&model).await;
    assert_eq!(answer, "openai/gguf http://127.0.0.1:8080/v1 ");
    assert!(notice.is_some());
    assert_eq!(model.name(), "openai/gguf");
    assert_eq!(choices.list()[0].value, "openai/gguf");

    user.log_in(Provider::Anthropic, None, "stored");
    fake.asked();
    assert_eq!(prompt(&model).await.1, answer);
    assert_eq!(fake.asked(), [""; 0]);
    assert_eq!(fake.with(|state| state.connected.len()), 1);
    // A new session selects from all models that are available at its start. Models that were found
    // earlier stay available.
    assert_eq!(choices.initial_model().unwrap().name(), "anthropic/claude-sonnet-5-5");
    let again = choices.open_model("openai/gguf").unwrap();
    assert_eq!(prompt(&again).await.1, answer);
}

#[tokio::test]
async fn a_login_and_a_logout_apply_from_the_next_prompt_on() {
    let (user, fake) = (TestUser::new(&[], "model = 'anthropic/x'"), FakeNetwork::default());
    let model = user.choices(&fake).create_session_model().unwrap();
    let missing = "error: there is no key for anthropic: set ANTHROPIC_API_KEY, or run \
        `callboard login`. If your server needs no key, set ANTHROPIC_BASE_URL to its address";
    assert_eq!(prompt(&model).await, (None, missing.to_owned()));
    user.log_in(Provider::Anthropic, None, "first-key");
    assert_eq!(prompt(&model).await, (None, "anthropic/x  first-key".to_owned()));
    user.log_in(Provider::Anthropic, None, "other-key");
    assert_eq!(prompt(&model).await.1, "anthropic/x  other-key");
    user.keys().remove_keys(&[Provider::Anthropic]).unwrap();
    assert_eq!(prompt(&model).await.1, missing);
}

#[tokio::test]
async fn a_login_applies_to_an_open_model_without_a_key() {
    let env = [("OPENAI_BASE_URL", "https://s/v1")];
    let (user, fake) = (TestUser::new(&env, "model = 'openai/x'"), FakeNetwork::default());
    let model = user.choices(&fake).create_session_model().unwrap();
    assert_eq!(prompt(&model).await.1, "openai/x https://s/v1 ");
    user.log_in(Provider::OpenAi, Some("https://s/v1"), "stored");
    assert_eq!(prompt(&model).await.1, "openai/x https://s/v1 stored");
    // The model is opened again only after a change.
    assert_eq!(prompt(&model).await.1, "openai/x https://s/v1 stored");
    assert_eq!(fake.with(|state| state.connected.len()), 2);
    user.keys().remove_keys(&[Provider::OpenAi]).unwrap();
    assert_eq!(prompt(&model).await.1, "openai/x https://s/v1 ");
}

#[tokio::test]
async fn listing_the_choices_does_not_read_the_disk() {
    let (user, fake) = (TestUser::new(&[], ""), FakeNetwork::default());
    let choices = user.choices(&fake);
    user.log_in(Provider::Anthropic, None, "stored");
    assert_eq!(names(&choices), ["direct"]);
    choices.reread_external_state().await;
    assert_eq!(names(&choices), ["anthropic/claude-sonnet-5-5", "direct"]);
    assert_eq!(choices.initial_model().unwrap().name(), "anthropic/claude-sonnet-5-5");
}

#[tokio::test]
async fn a_key_is_sent_only_to_the_url_for_which_it_was_stored() {
    for (env, stored, answer) in [
        (&[][..], Some("https://s/v1"), "openai/x https://s/v1 stored"),
        (
            &[("OPENAI_BASE_URL", "https://s/v1/")],
            Some("https://s/v1"),
            "openai/x https://s/v1/ stored",
        ),
        (
            &[("OPENAI_BASE_URL", "https://other/v1")],
            Some("https://s/v1"),
            "openai/x https://other/v1 ",
        ),
        (&[("OPENAI_BASE_URL", "https://other/v1")], None, "openai/x https://other/v1 "),
        (&[("OPENAI_API_KEY", "o-key")], Some("https://s/v1"), "openai/x  o-key"),
    ] {
        let (user, fake) = (TestUser::new(env, "model = 'openai/x'"), FakeNetwork::default());
        user.log_in(Provider::OpenAi, stored, "stored");
        let model = user.choices(&fake).create_session_model().unwrap();
        assert_eq!(prompt(&model).await.1, answer);
    }
}

#[tokio::test]
async fn an_empty_list_of_a_server_is_an_error_and_is_requested_again() {
    let (user, fake) =
        (TestUser::new(&[("OPENAI_BASE_URL", "http://h/v1")], ""), FakeNetwork::default());
    let model = user.choices(&fake).create_session_model().unwrap();
    assert_eq!(prompt(&model).await, (None, "error: openai lists no model; name one".to_owned()));
    fake.with(|state| state.listed = vec!["first".to_owned()]);
    assert_eq!(prompt(&model).await.1, "openai/first http://h/v1 ");
}

#[test]
fn every_model_that_is_configured_or_has_a_key_can_be_chosen() {
    let file = "model = 'gemini/mine'\n[providers.openai]\nmodels = ['one', 'two']\n\
        [providers.ollama]\nmodels = ['qwen']";
    let (user, fake) = (TestUser::new(&KEYS, file), FakeNetwork::default());
    let choices = user.choices(&fake);
    let listed = names(&choices);
    assert_eq!(
        listed,
        [
            "gemini/mine",
            "openai/one",
            "openai/two",
            "ollama/qwen",
            "anthropic/claude-sonnet-5-5",
            "openai-responses/gpt-6-sol",
            "gemini/gemini-3.8-flash",
            "direct",
        ]
    );
    for name in listed {
        assert_eq!(choices.open_model(&name).unwrap().name(), name);
    }
    assert!(choices.open_model("gpt").is_err());
    assert_eq!(fake.asked(), [""; 0]);
}

#[tokio::test]
async fn the_configuration_overrides_the_values_of_a_local_server() {
    let file = "[providers.ollama]\ntools = 'json_schema'\ncontext_tokens = 9\nca_file = '/ca.pem'\n\
        [providers.openai]\ntools = 'json_schema'\nmodels = ['of-openai']";
    let mut openai = ProviderSettings::new(Provider::OpenAi, "gguf");
    openai.base_url = Some("http://127.0.0.1:8080/v1".to_owned());
    openai.context_tokens = Some(7);
    let json = |found: &ProviderSettings| {
        let mut settings = found.clone();
        settings.tools = ToolCalling::JsonSchema;
        settings
    };
    let mut ollama = local();
    ollama.context_tokens = Some(7);
    let mut configured = json(&ollama);
    configured.ca_file = Some("/ca.pem".into());
    configured.context_tokens = Some(9);
    let named = "[providers.ollama]\nmodels = ['qwen', 'llama']";
    let mut qwen = ollama.clone();
    qwen.model = "qwen".to_owned();
    qwen.context_tokens = None;
    for (file, found, opened) in [
        ("", &ollama, &ollama),
        (file, &ollama, &configured),
        (named, &ollama, &qwen),
        (file, &openai, &json(&openai)),
    ] {
        let (user, fake) = (TestUser::new(&[], file), FakeNetwork::default());
        fake.with(|state| state.local = vec![found.clone()]);
        let choices = user.choices(&fake);
        let model = choices.create_session_model().unwrap();
        prompt(&model).await;
        // Opens the model by its name, as another session would do later.
        prompt(&choices.open_model(model.name()).unwrap()).await;
        let connected = fake.with(|state| std::mem::take(&mut state.connected));
        assert_eq!(connected.last(), Some(opened), "{file}");
        assert!(connected.iter().filter(|it| it.model == opened.model).count() >= 2);
    }
}

#[tokio::test]
async fn the_report_names_every_address_that_receives_a_request() {
    let gguf = ProviderSettings::new(Provider::OpenAi, "gguf")
        .with_base_url("http://127.0.0.1:8080/v1".to_owned());
    let both = vec![local(), gguf];
    let slash = "[providers.ollama]\nbase_url = 'http://127.0.0.1:11434/'";
    let responses = "[providers.openai-responses]\nbase_url = 'http://r/v1'";
    let silent = [("OLLAMA_HOST", "silent"), ("OPENAI_BASE_URL", "http://h/v1")];
    for (env, file, local, rows) in [
        (
            &[][..],
            "",
            &[][..],
            &[
                "Nothing is set up: run `callboard login`, set a key, or set OPENAI_BASE_URL to the \
               address of a server.",
            ][..],
        ),
        (
            &[],
            "",
            &both,
            &[
                "ollama at http://127.0.0.1:11434: 1 model",
                "openai at http://127.0.0.1:8080/v1: 1 model",
            ],
        ),
        (
            &[],
            slash,
            &both,
            &[
                "ollama at http://127.0.0.1:11434/: 1 model",
                "openai at http://127.0.0.1:8080/v1: 1 model",
            ],
        ),
        (&[], responses, &[], &["openai-responses at http://r/v1: 1 model"]),
        (
            &silent,
            "",
            &[],
            &[
                "openai at http://h/v1: 1 model",
                "ollama at http://silent:11434: no (status 401). No key was sent: set OLLAMA_API_KEY, or run `callboard login`",
            ],
        ),
    ] {
        let (user, fake) = (TestUser::new(env, file), FakeNetwork::default());
        fake.with(|state| {
            state.local = local.to_vec();
            state.listed = vec!["first".to_owned()];
        });
        let report = user.choices(&fake).request_report().await.to_string();
        let headings = report.lines().take_while(|line| !line.starts_with("direct:"));
        let headings: Vec<_> = headings.filter(|line| !line.starts_with("  ")).collect();
        assert_eq!(headings, rows, "{report}");
    }
}

#[tokio::test]
async fn every_model_that_a_local_server_lists_can_be_selected() {
    let (user, fake) = (TestUser::new(&[], ""), FakeNetwork::default());
    let base_url = Some("http://127.0.0.1:8080/v1".to_owned());
    fake.with(|state| {
        let mut found = ProviderSettings::new(Provider::OpenAi, "first").with_base_url(base_url);
        found.context_tokens = Some(7);
        state.local = vec![found];
    });
    let choices = user.choices(&fake);
    choices.discover_models().await;
    assert_eq!(names(&choices), ["direct"], "an empty list is asked for again");
    fake.with(|state| state.listed = vec!["first".to_owned(), "second".to_owned()]);
    choices.discover_models().await;
    assert_eq!(names(&choices), ["openai/first", "openai/second", "direct"]);
    // In the second iteration, the list is already known.
    for _ in 0..2 {
        for (model, tokens) in [("first", Some(7)), ("second", None)] {
            let name = format!("openai/{model}");
            let answer = prompt(&choices.open_model(&name).unwrap()).await.1;
            assert_eq!(answer, format!("{name} http://127.0.0.1:8080/v1 "));
            let connected = fake.with(|state| state.connected.pop().unwrap());
            assert_eq!(connected.context_tokens, tokens, "{model}");
        }
    }
    fake.asked();
    choices.discover_models().await;
    assert_eq!(fake.asked(), ["local "], "what it has listed is known");
}

/// Models are discovered again before each prompt.
#[tokio::test]
async fn a_server_that_lists_no_models_is_not_asked_again_at_once() {
    let user = TestUser::new(&[("OPENAI_API_KEY", "wrong")], "");
    let fake = FakeNetwork::default();
    let choices = user.choices(&fake);
    for _ in 0..3 {
        choices.discover_models().await;
    }
    assert_eq!(fake.asked(), ["models of openai"]);
}

#[tokio::test]
async fn servers_share_the_menu_and_direct_is_the_last_choice() {
    let env = [("OPENAI_API_KEY", "o"), ("ANTHROPIC_API_KEY", "a"), ("GEMINI_API_KEY", "wrong")];
    let (user, fake) = (TestUser::new(&env, ""), FakeNetwork::default());
    fake.with(|state| state.listed = (0..300).map(|number| format!("m{number}")).collect());
    let choices = user.choices(&fake);
    choices.discover_models().await;
    let names = names(&choices);
    assert!(names.len() <= MAX_CATALOGUE_CHOICES && names.len() > MAX_CATALOGUE_CHOICES - 5);
    assert_eq!(names.last().unwrap(), "direct");
    let of = |provider: &str| names.iter().filter(|name| name.starts_with(provider)).count();
    assert!(of("anthropic/").abs_diff(of("openai")) < 3, "{names:?}");
}

#[tokio::test]
async fn unreadable_logins_are_not_reported_as_a_missing_model() {
    let (user, fake) = (TestUser::new(&[], ""), FakeNetwork::default());
    user.log_in(Provider::OpenAi, Some("https://s/v1"), "stored");
    let file = user.home.path().join(".local/state/callboard/keys/keys.json");
    std::fs::write(&file, "{").unwrap();
    let error = user.choices(&fake).resolve_default_model().await.unwrap_err().to_string();
    assert!(error.contains(&file.display().to_string()), "{error}");
    // An available model is used even though the logins cannot be read.
    fake.with(|state| state.local = vec![local()]);
    assert!(user.choices(&fake).resolve_default_model().await.unwrap().is_some());
    std::fs::remove_file(&file).unwrap();
    fake.with(|state| state.local.clear());
    assert!(user.choices(&fake).resolve_default_model().await.unwrap().is_none());
}

#[tokio::test]
async fn without_a_menu_no_server_receives_a_request() {
    let (user, fake) = (TestUser::new(&KEYS, ""), FakeNetwork::default());
    user.choices(&fake).without_menu_discovery().discover_models().await;
    assert_eq!(fake.asked(), [""; 0]);
    user.choices(&fake).discover_models().await;
    assert_eq!(fake.asked().len(), 3);
}
