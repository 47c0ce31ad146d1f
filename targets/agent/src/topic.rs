//! MQTT's topics and the filters of subscriptions (MQTT 3.1.1, section 4.7).

/// Whether something can be published on `topic`.
pub(crate) fn check(topic: &str) -> Result<(), String> {
    if topic.is_empty() || topic.len() > 1024 {
        return Err("a topic has 1 to 1024 bytes".into());
    }
    match topic.chars().find(|c| matches!(c, '+' | '#') || c.is_control()) {
        Some(c) => Err(format!("the topic {topic:?} cannot hold {c:?}")),
        None if topic.starts_with('$') => {
            Err(format!("{topic:?}: topics that begin with $ are the broker's own"))
        }
        None => Ok(()),
    }
}

/// Whether something can be subscribed to.
pub(crate) fn check_filter(filter: &str) -> Result<(), String> {
    let levels: Vec<&str> = filter.split('/').collect();
    let bad = |(i, level): (usize, &&str)| match *level {
        "+" => false,
        "#" => i + 1 != levels.len(),
        level => level.contains(['+', '#']) || level.chars().any(char::is_control),
    };
    if filter.is_empty() || filter.len() > 1024 || levels.iter().enumerate().any(bad) {
        return Err(format!(
            "{filter:?} is no filter of topics: + stands for a level, # for all further ones"
        ));
    }
    Ok(())
}

/// Whether a subscription to `filter` brings what is published on `topic`.
pub(crate) fn covers(filter: &str, topic: &str) -> bool {
    let (mut filter, mut topic) = (filter.split('/'), topic.split('/'));
    loop {
        match (filter.next(), topic.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some("+"), Some(_)) => {}
            (Some(f), Some(t)) if f == t => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_cover_topics() {
        for (filter, topic, expected) in [
            ("a/b", "a/b", true),
            ("a/b", "a/c", false),
            ("a/+", "a/b", true),
            ("a/+", "a/b/c", false),
            ("a/#", "a/b/c", true),
            ("a/#", "a", true),
            ("#", "x", true),
            ("+/b", "a/b", true),
            ("a", "a/b", false),
        ] {
            assert_eq!(covers(filter, topic), expected, "{filter} {topic}");
        }
        for bad in ["", "a/#/b", "a+/b", "x#", "a\n"] {
            assert!(check_filter(bad).is_err(), "{bad}");
        }
        assert!(check_filter("home/+/ask/#").is_ok());
        for bad in ["", "a/+", "#", "a\0", "$SYS/x"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
