//! The preferred locale, from the configuration or the environment.

/// Returns the preferred locale of titles. The value `configured` is used if it is not empty. If
/// `configured` is empty, the first non-empty variable of `LC_ALL`, `LC_MESSAGES` and `LANG` is
/// used. POSIX defines this order
/// (<https://pubs.opengroup.org/onlinepubs/9799919799/basedefs/V1_chap08.html#tag_08_02>).
/// `variable` returns the value of an environment variable.
///
/// ```
/// let variable = |name: &str| (name == "LANG").then(|| "de_DE.UTF-8".to_owned());
/// let locale = acp_lifecycle::title::preferred_locale(None, variable);
/// assert_eq!(locale, Some("de_DE.UTF-8".to_owned()));
/// let locale = acp_lifecycle::title::preferred_locale(Some("en"), variable);
/// assert_eq!(locale, Some("en".to_owned()));
/// ```
#[must_use]
pub fn preferred_locale(
    configured: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let variables = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().filter_map(variable);
    configured.map(str::to_owned).into_iter().chain(variables).find(|locale| !locale.is_empty())
}

#[cfg(test)]
mod tests {
    use super::preferred_locale;
    use pretty_assertions::assert_eq;

    #[test]
    fn configuration_wins_then_the_order_of_posix() {
        for (configured, all, messages, lang, expected) in [
            (Some("fr"), "a", "b", "c", Some("fr")),
            (Some(""), "a", "b", "c", Some("a")),
            (None, "a", "b", "c", Some("a")),
            (None, "", "b", "c", Some("b")),
            (None, "", "", "c", Some("c")),
            (None, "C", "de_DE", "de_DE", Some("C")),
            (None, "", "", "", None),
        ] {
            let variable = |name: &str| match name {
                "LC_ALL" => Some(all.to_owned()),
                "LC_MESSAGES" => Some(messages.to_owned()),
                "LANG" => Some(lang.to_owned()),
                _ => panic!("unexpected variable {name}"),
            };
            assert_eq!(preferred_locale(configured, variable).as_deref(), expected);
        }
        assert_eq!(preferred_locale(None, |_| None), None);
    }
}
