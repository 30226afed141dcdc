//! The limits of the tools for the web.

use std::time::Duration;

// The web

/// Maximum length in bytes of a URL that is fetched, and of a link in a page.
pub(crate) const MAX_URL_BYTES: usize = 4_096;

/// Maximum number of redirects of one page.
pub(crate) const MAX_REDIRECTS: usize = 5;

/// Maximum time of a download without receiving any bytes.
pub(crate) const MAX_STALL_TIME: Duration = Duration::from_secs(15);

/// Maximum time of one request, from the connection to the end of the body.
pub(crate) const MAX_DOWNLOAD_TIME: Duration = Duration::from_secs(60);

/// Maximum number of bytes of a page, both as received and after decompression. If a text is
/// longer, only its beginning is shown.
pub(crate) const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// Number of bytes at the beginning of a page that are searched for the declaration of its
/// encoding.
pub(crate) const META_SCAN_BYTES: usize = 1_024;

/// Maximum number of nodes (elements, comments and texts) of a page that is converted to Markdown.
/// A larger page is converted to plain text, because each node needs about 200 bytes, and the
/// converter needs quadratic time for some pages.
pub(crate) const MAX_HTML_NODES: usize = 50_000;

/// Maximum number of cells of a table that is converted to a Markdown table. Cells that are missing
/// in short rows are counted too.
pub(crate) const MAX_TABLE_CELLS: usize = 100_000;

/// Maximum number of columns or rows that one cell of a table spans. Browsers have a similar limit.
pub(crate) const MAX_TABLE_SPAN: usize = 1_000;

/// Maximum number of bytes that quotes and lists may add to the lines of a page that is converted
/// to Markdown.
pub(crate) const MAX_HTML_INDENT_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of bytes of the absolute links of a page. Further links are removed.
pub(crate) const MAX_HTML_LINK_BYTES: usize = 2 * 1024 * 1024;

/// Number of bytes of a page that are parsed between two checks of the time.
pub(crate) const HTML_CHUNK_BYTES: usize = 4 * 1024;

/// Maximum number of attributes of a page that is converted to Markdown.
pub(crate) const MAX_HTML_ATTRIBUTES: usize = 100_000;

/// Maximum nesting depth of the elements of a page that is converted to Markdown. The depth is
/// limited because the conversion is recursive. Browsers allow 512 levels.
pub(crate) const MAX_HTML_DEPTH: usize = 192;

/// Maximum time to parse a page that is converted to Markdown.
pub(crate) const MAX_HTML_PARSE_TIME: Duration = Duration::from_secs(2);

/// Maximum length in bytes of the title of a page.
pub(crate) const MAX_PAGE_TITLE_BYTES: usize = 300;

/// Maximum length in bytes of the media type of a page.
pub(crate) const MAX_MEDIA_TYPE_BYTES: usize = 100;

/// Maximum number of bytes of a page that one call shows. Together with the lines about the page,
/// such a result is small enough to be sent to the model without a file.
pub(crate) const MAX_PAGE_PART_BYTES: usize = 24 * 1024;

/// Maximum length in bytes of a line of a page. A longer line is split.
pub(crate) const MAX_PAGE_LINE_BYTES: usize = 2_000;

/// Maximum number of bytes of fetched pages that a session keeps. The oldest page is removed first.
pub(crate) const MAX_CACHED_PAGES_BYTES: usize = 16 * 1024 * 1024;

/// Maximum age of a page that is shown without fetching it again.
pub(crate) const MAX_CACHED_PAGE_AGE: Duration = Duration::from_secs(15 * 60);

/// Maximum length in bytes of a query of a web search.
pub(crate) const MAX_SEARCH_QUERY_BYTES: usize = 1_000;

/// Maximum number of results of a web search.
pub(crate) const MAX_SEARCH_RESULTS: usize = 10;

/// Maximum length in bytes of the title of a search result.
pub(crate) const MAX_SEARCH_TITLE_BYTES: usize = 200;

/// Maximum length in bytes of the snippet of a search result.
pub(crate) const MAX_SEARCH_SNIPPET_BYTES: usize = 600;
