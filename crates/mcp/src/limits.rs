//! The limits of this crate.

use std::time::Duration;

/// Maximum number of servers of a session. Further servers are not started.
pub(crate) const MAX_SERVERS: usize = 64;

/// Maximum number of tools of a server. Further tools are left out.
pub(crate) const MAX_SERVER_TOOLS: usize = 512;

/// Maximum length of the name of a tool in bytes. A tool with a longer name is left out.
pub(crate) const MAX_SERVER_TOOL_NAME_BYTES: usize = 128;

/// Maximum number of tools of a server whose first definition a session stores. Every call of a
/// further tool needs permission.
pub(crate) const MAX_KNOWN_TOOLS: usize = 1024;

/// Maximum number of redirects that a request to a server follows. All of them must lead to the
/// same origin.
pub(crate) const MAX_REDIRECTS: usize = 5;

/// Maximum length of the description of a tool in bytes. The rest is left out.
pub(crate) const MAX_DESCRIPTION_BYTES: usize = 4096;

/// Maximum length of the schema of a tool's arguments as JSON in bytes. A tool with a longer schema
/// accepts any arguments.
pub(crate) const MAX_SCHEMA_BYTES: usize = 64 << 10;

/// Maximum depth of the schema of a tool's arguments. A tool with a deeper schema accepts any
/// arguments.
pub(crate) const MAX_SCHEMA_DEPTH: usize = 32;

/// Maximum length in bytes of a tool's name for the model. Model providers have the same limit.
pub(crate) const MAX_TOOL_NAME_BYTES: usize = 64;

/// Maximum length of a message of a server in bytes. A longer message is dropped.
pub(crate) const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Maximum number of bytes of a text in a result that the user sees. The model can also read the
/// rest of the text.
pub(crate) const MAX_SHOWN_TEXT_BYTES: usize = 256 << 10;

/// Number of bytes that are kept from the end of a server's standard error.
pub(crate) const MAX_STDERR_BYTES: usize = 4096;

/// Number of lines from the end of a server's standard error that the notice about its failure
/// shows.
pub(crate) const SHOWN_STDERR_LINES: usize = 5;

/// Maximum time to wait for the rest of the standard error after a server has ended.
pub(crate) const STDERR_WAIT: Duration = Duration::from_millis(200);

/// Maximum number of notices that wait for the next turn. Further notices are dropped.
pub(crate) const MAX_NOTICES: usize = 100;

/// Time between the start of a session and the start of its servers.
pub(crate) const START_DELAY: Duration = Duration::from_millis(10);

/// Time after which a server that has not started counts as failed, by default.
pub(crate) const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// Time without a result or progress after which a call fails, by default.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(300);

/// Minimum time between two requests for the list of a server's tools.
pub(crate) const LIST_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum time that a request to the model waits for changed lists of tools, and for servers that
/// are connected again.
pub(crate) const LIST_WAIT: Duration = Duration::from_secs(1);

/// Time that a server has to close its connection before its processes are ended.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum time to wait for the exit code of a failed server. The notice about the failure shows
/// this code.
pub(crate) const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of requests that a server may send during one call. Questions to the user and
/// requests to the model both count.
pub(crate) const MAX_CALL_REQUESTS: usize = 32;

/// Maximum number of requests of a server that are handled at the same time. Further requests are
/// refused.
pub(crate) const MAX_OPEN_REQUESTS: usize = 8;

/// Maximum length of the text of a server's question to the user in bytes. The rest is left out.
pub(crate) const MAX_ELICITATION_BYTES: usize = 4096;

/// Maximum length of the form of a question as JSON in bytes. A longer form is refused.
pub(crate) const MAX_FORM_BYTES: usize = 16 << 10;

/// Maximum length in bytes of the URL of a page to which a server sends the user. A longer URL is
/// refused.
pub(crate) const MAX_PAGE_URL_BYTES: usize = 2048;

/// Maximum number of stored pages that the user has not finished yet. The client is not informed
/// when the user finishes a further page.
pub(crate) const MAX_OPEN_PAGES: usize = 32;

/// Maximum length of a request to the model, as JSON, in bytes. A longer request is refused,
/// because the user sees the whole request.
pub(crate) const MAX_SAMPLING_BYTES: usize = 64 << 10;

/// Maximum length of a reply of the model to a server in tokens. If a server requests a larger
/// maximum, this limit is used instead.
pub(crate) const MAX_SAMPLING_TOKENS: u32 = 4096;

/// Maximum length of the schema of a tool's results as JSON in bytes, with its references replaced.
/// Results are not compared with a longer schema.
pub(crate) const MAX_OUTPUT_SCHEMA_BYTES: usize = 64 << 10;

/// Maximum length of a structured result as JSON that is compared with its schema, in bytes.
pub(crate) const MAX_CHECKED_RESULT_BYTES: usize = 256 << 10;

/// Maximum time to compare a structured result with its schema.
pub(crate) const OUTPUT_CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of JSON values in a message of a server over its standard output. An array or
/// object counts as 4 values. A message with more values is dropped.
pub(crate) const MAX_MESSAGE_VALUES: usize = 100_000;

/// Maximum number of bytes per second that are read from the standard output of a server, and the
/// same from its standard error. [`READ_BURST`] allows short bursts.
pub(crate) const READ_BYTES_PER_SECOND: u64 = 4 << 20;

/// Maximum number of messages per second that are read from a server's standard output.
/// [`READ_BURST`] allows short bursts.
pub(crate) const READ_MESSAGES_PER_SECOND: u64 = 1_000;

/// Size of a burst: a server may send the bytes and messages of this time at once.
pub(crate) const READ_BURST: Duration = Duration::from_secs(2);

/// Maximum number of unanswered requests of a server. Further requests are dropped.
pub(crate) const MAX_UNANSWERED_REQUESTS: usize = 64;

/// Maximum length in bytes of the id and of the method of a server's request. A request with a
/// longer id or method is dropped.
pub(crate) const MAX_REQUEST_NAME_BYTES: usize = 256;

/// Maximum length of a stored login in bytes, as JSON. A longer login is not stored.
pub(crate) const MAX_STORED_LOGIN_BYTES: usize = 16 << 10;

/// Maximum time that a login waits for the user.
pub(crate) const LOGIN_TIMEOUT: Duration = Duration::from_secs(300);

/// Time limit for one request of a login, e.g. for tokens.
pub(crate) const LOGIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time that a request waits for the renewal of its access token. After this time, the
/// renewal itself continues, because the new tokens must be stored.
pub(crate) const TOKEN_REFRESH_TIMEOUT: Duration = Duration::from_secs(60);

/// Time before the expiry of an access token at which the token is renewed. If half of the token's
/// lifetime is shorter, that time is used instead.
pub(crate) const TOKEN_REFRESH_MARGIN: Duration = Duration::from_secs(30);

/// Maximum length of a response to a request of a login in bytes.
pub(crate) const MAX_LOGIN_RESPONSE_BYTES: usize = 256 << 10;

/// Maximum number of bytes of a server's text that an error of a login shows.
pub(crate) const MAX_LOGIN_ERROR_BYTES: usize = 300;

/// Maximum length of the head of a browser's request at the end of a login, in bytes.
pub(crate) const MAX_CALLBACK_BYTES: usize = 16 << 10;

/// Time limit for a browser's request at the end of a login. The limit is needed because a browser
/// may open connections without using them.
pub(crate) const CALLBACK_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of connections of browsers that a login serves at a time.
pub(crate) const MAX_CALLBACKS: usize = 16;
