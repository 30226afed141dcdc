//! The beginning of a request that the request before it had told already, as it was written then.
//!
//! Each request tells the whole session again, and the model library shapes each of its messages
//! anew: a session's requests would cost more with each message before them. What the library writes
//! of a message depends on no other one, as long as a reply stands between them; so once a message
//! is followed by a reply and by a further request, its JSON is kept, the library is told one short
//! message in the place of all those that are kept, and what was kept is put where that stands.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    ptr,
    sync::{Arc, Weak},
};

use rig_core::message::CallId;
use serde_json::value::RawValue;

use crate::{Message, Request, ToolSpec};

/// What a dialect calls its messages.
const ARRAYS: [&str; 3] = ["messages", "input", "contents"];

/// What one session told one model so far.
#[derive(Debug)]
pub(super) struct Beginning {
    system: Weak<str>,
    tools: Weak<[ToolSpec]>,
    /// The messages of the last request. While they are known here, no others get their addresses.
    messages: Vec<Weak<Message>>,
    /// How many elements of JSON they were.
    elements: usize,
    kept: Kept,
}

/// What is told again as it was written.
#[derive(Debug, Default)]
struct Kept {
    /// How many messages that are.
    messages: usize,
    /// The elements of JSON, the system prompt among them where that is one, each behind a comma.
    json: Vec<u8>,
    elements: usize,
    /// The ids of their calls.
    ids: HashSet<CallId>,
}

impl Beginning {
    /// Nothing is known yet of the session of a request.
    pub(super) fn new(request: &Request) -> Self {
        Self {
            system: Arc::downgrade(&request.system),
            tools: Arc::downgrade(&request.tools),
            messages: Vec::new(),
            elements: 0,
            kept: Kept::default(),
        }
    }

    /// Tells whether somebody still has the session's first message.
    pub(super) fn is_held(&self) -> bool {
        self.messages.first().is_some_and(|first| first.strong_count() > 0)
    }

    /// Whether a request begins with what is kept.
    pub(super) fn fits(&self, request: &Request) -> bool {
        ptr::eq(self.system.as_ptr(), Arc::as_ptr(&request.system))
            && ptr::eq(self.tools.as_ptr(), Arc::as_ptr(&request.tools))
            && begins(&request.messages, &self.messages[..self.kept.messages])
            && (self.kept.messages == 0 || is_reply(request, self.kept.messages))
    }

    /// Names the session.
    pub(super) fn address(&self) -> Option<usize> {
        Some(self.messages.first()?.as_ptr().addr())
    }

    /// The addresses of the messages that are kept.
    pub(super) fn kept(&self) -> impl Iterator<Item = usize> {
        self.messages[..self.kept.messages].iter().map(|message| message.as_ptr().addr())
    }

    /// How many messages of a request need not be told the next time: those of the request before
    /// it, if a reply follows them.
    fn next(&self, request: &Request) -> Option<usize> {
        let next = self.messages.len();
        (next > self.kept.messages && begins(&request.messages, &self.messages))
            .then_some(next)
            .filter(|next| is_reply(request, *next))
    }
}

fn begins(messages: &[Arc<Message>], with: &[Weak<Message>]) -> bool {
    let is_same =
        |(one, other): (&Arc<Message>, &Weak<Message>)| Arc::as_ptr(one) == other.as_ptr();
    messages.len() >= with.len() && messages.iter().zip(with).all(is_same)
}

/// Whether a reply is in a place, and one that the library tells: what stands on both sides of one
/// that it leaves out becomes one message.
fn is_reply(request: &Request, place: usize) -> bool {
    match request.messages.get(place).map(|message| &**message) {
        Some(Message::Assistant { text, calls, .. }) => {
            !text.trim().is_empty() || calls.iter().any(|call| !call.name.is_empty())
        }
        _ => false,
    }
}

/// A request on its way: what is known of its session until it is written.
#[derive(Debug)]
pub(super) struct Telling {
    beginning: Beginning,
    messages: Vec<Weak<Message>>,
    /// What stands for all that is kept; `None` where nothing is.
    mark: Option<String>,
    /// How many messages need not be told again, and the ids of their calls.
    next: Option<(usize, HashSet<CallId>)>,
}

impl Telling {
    /// `mark` stands for what is kept.
    pub(super) fn new(beginning: Beginning, request: &Request, mark: String) -> Self {
        let next = beginning.next(request).map(|next| (next, HashSet::new()));
        let mark = (beginning.kept.messages > 0).then_some(mark);
        let messages = request.messages.iter().map(Arc::downgrade).collect();
        Self { beginning, messages, mark, next }
    }

    /// What the library is told in the place of the messages that are kept.
    pub(super) fn mark(&self) -> Option<&str> {
        self.mark.as_deref()
    }

    /// How many messages are kept.
    pub(super) fn kept(&self) -> usize {
        self.beginning.kept.messages
    }

    /// Whether a call that is kept has this id.
    pub(super) fn is_taken(&self, id: &CallId) -> bool {
        self.beginning.kept.ids.contains(id)
    }

    /// Learns the ids of a reply's calls. One that the library chose depends on those before it.
    pub(super) fn learn(&mut self, place: usize, ids: &[CallId]) {
        let Some((next, learnt)) = &mut self.next else { return };
        if place >= *next {
            return;
        }
        if ids.iter().all(|id| matches!(id, CallId::Provider(_))) {
            learnt.extend(ids.iter().cloned());
        } else {
            self.next = None;
        }
    }

    /// Puts what is kept into a request that the library wrote, and `fill` fills the marks of texts
    /// in. Returns it whole, and what is known now; `None` if the request has another form.
    pub(super) fn write(
        self,
        body: &str,
        fill: impl Fn(&str, &mut Vec<u8>),
    ) -> Option<(Vec<u8>, Beginning)> {
        let Self { mut beginning, messages, mark, next } = self;
        let (array, elements) = array(body)?;
        let told = match mark {
            // It stands for all before it, too.
            Some(mark) => {
                let at = elements.iter().position(|element| element.get().contains(&*mark))?;
                &elements[at + 1..]
            }
            None => &elements[..],
        };
        let count = beginning.kept.elements + told.len();
        let kept = &mut beginning.kept;
        let mut rest = told;
        if let Some((next, ids)) = next
            && let Some(more) = beginning.elements.checked_sub(kept.elements)
            && let Some((again, new)) = told.split_at_checked(more)
        {
            again.iter().for_each(|element| push(element, &mut kept.json, &fill));
            (kept.messages, kept.elements) = (next, kept.elements + more);
            kept.ids.extend(ids);
            rest = new;
        }
        let start = array.get().as_ptr().addr() - body.as_ptr().addr();
        let mut whole = Vec::with_capacity(body.len() + kept.json.len());
        fill(&body[..start], &mut whole);
        let first = whole.len();
        whole.extend_from_slice(&kept.json);
        rest.iter().for_each(|element| push(element, &mut whole, &fill));
        // The comma before the first element.
        *whole.get_mut(first)? = b'[';
        whole.push(b']');
        fill(&body[start + array.get().len()..], &mut whole);
        (beginning.messages, beginning.elements) = (messages, count);
        Some((whole, beginning))
    }
}

fn push(element: &RawValue, to: &mut Vec<u8>, fill: impl Fn(&str, &mut Vec<u8>)) {
    to.push(b',');
    fill(element.get(), to);
}

/// Finds the messages of a request, whole and one by one.
fn array(body: &str) -> Option<(&RawValue, Vec<&RawValue>)> {
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(body).ok()?;
    let array = ARRAYS.iter().find_map(|name| fields.get(*name))?;
    Some((array, serde_json::from_str(array.get()).ok()?))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::limits;
    use crate::provider::{Provider, memory::Memory};

    fn reply() -> Message {
        let (text, thought) = ("well".to_owned(), String::new());
        Message::Assistant { text, thought, calls: Vec::new(), replay: None }
    }

    fn of(texts: &[&str]) -> Request {
        let message = |text: &&str| match *text {
            "" => Arc::new(reply()),
            text => Arc::new(Message::user(text)),
        };
        Request { messages: Arc::new(texts.iter().map(message).collect()), ..Request::default() }
    }

    fn first(all: &Request, count: usize) -> Request {
        Request { messages: Arc::new(all.messages[..count].to_vec()), ..all.clone() }
    }

    /// What the library would write of what it is told, and what that is written as.
    fn written(memory: &Memory, request: &Request) -> (usize, String) {
        let telling = memory.begin(request);
        let kept = telling.kept();
        let mut elements: Vec<_> = telling.mark().map(str::to_owned).into_iter().collect();
        for message in &request.messages[kept..] {
            elements.push(match &**message {
                Message::User(parts) => match &parts[0] {
                    crate::Part::Text(text) => memory.text(message, &mut 0, text),
                    other => panic!("{other:?}"),
                },
                _ => String::new(),
            });
        }
        let body = json!({ "model": "m", "messages": elements, "tools": [] }).to_string();
        let whole = memory.write(telling, &Bytes::from(body)).unwrap();
        (kept, String::from_utf8(whole.to_vec()).unwrap())
    }

    #[test]
    fn what_a_reply_and_a_request_followed_is_kept_and_no_more() {
        let memory = Memory::new(Provider::OpenAi);
        let long = "long".repeat(limits::LONG_TEXT);
        let all = of(&[&long, "note", "", "b", "", "c", "more", "", "d"]);
        let first = |count| first(&all, count);
        for (count, kept) in [(2, 0), (4, 0), (4, 2), (6, 2), (7, 4), (9, 4), (9, 7)] {
            let (told, whole) = written(&memory, &first(count));
            assert_eq!(told, kept, "of {count}");
            let texts = [&long, "note", "", "b", "", "c", "more", "", "d"];
            let expected = json!({ "model": "m", "messages": texts[..count], "tools": [] });
            assert_eq!(whole, expected.to_string());
        }
        assert!(!format!("{memory:?}").contains(&long), "a text is there twice");
    }

    #[test]
    fn nothing_is_kept_of_another_session_or_of_one_that_is_told_otherwise() {
        let memory = Memory::new(Provider::OpenAi);
        let request = of(&["a", "", "b", "", "c"]);
        let first = |count| first(&request, count);
        let known = || {
            written(&memory, &first(1));
            written(&memory, &first(3));
            written(&memory, &first(5)).0
        };
        assert_eq!(known(), 1);
        assert_eq!(written(&memory, &Request { tools: Arc::new([]), ..request.clone() }).0, 0);
        assert_eq!(known(), 1);
        assert_eq!(written(&memory, &Request { system: "Be.".into(), ..request.clone() }).0, 0);
        assert_eq!(known(), 1);
        let mut other = request.clone();
        Arc::make_mut(&mut other.messages)[2] = Arc::new(Message::user("b"));
        assert_eq!(written(&memory, &other).0, 0);
        assert_eq!(written(&memory, &of(&["a", "", "b", "", "c"])).0, 0);
    }

    #[test]
    fn a_request_of_another_form_is_not_taken_for_what_it_is_not() {
        let memory = Memory::new(Provider::OpenAi);
        let request = of(&["a", "", "b", "", "c"]);
        for count in [1, 3] {
            written(&memory, &first(&request, count));
        }
        let telling = memory.begin(&request);
        assert!(telling.mark().is_some());
        assert_eq!(memory.write(telling, &Bytes::from_static(b"{\"messages\":[\"a\"]}")), None);
        for body in ["{}", "[]", "{\"messages\":1}", "nonsense"] {
            assert_eq!(memory.write(memory.begin(&of(&["a"])), &Bytes::from(body)), None, "{body}");
        }
    }
}
