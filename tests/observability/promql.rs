//! A minimal parser for PromQL that finds the metrics of an expression.

/// A tokenized expression.
pub struct Expression {
    tokens: Vec<Token>,
}

/// A metric, and the labels in its selector.
#[derive(Debug, PartialEq, Eq)]
pub struct Selector {
    pub metric: String,
    pub labels: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(char),
}

/// Operators between expressions. The words in brackets after `by` and the like are labels.
const BINDING: [&str; 5] = ["and", "or", "unless", "bool", "offset"];
const GROUPING: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

impl Expression {
    pub fn new(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                // A text in quotes is a value, and one in square brackets a time.
                '"' => while rest.next().is_some_and(|c| c != '"') {},
                '[' => while rest.next().is_some_and(|c| c != ']') {},
                c if c.is_ascii_alphanumeric() || "_:$".contains(c) => {
                    let mut word = String::from(c);
                    while let Some(c) =
                        rest.next_if(|c| c.is_ascii_alphanumeric() || "_:.".contains(*c))
                    {
                        word.push(c);
                    }
                    tokens.push(Token::Word(word));
                }
                c if c.is_whitespace() => {}
                c => tokens.push(Token::Sign(c)),
            }
        }
        Self { tokens }
    }

    /// The metrics of the expression, in order.
    pub fn selectors(&self) -> Vec<Selector> {
        let mut found: Vec<Selector> = Vec::new();
        let mut at = 0;
        while let Some(token) = self.tokens.get(at) {
            at += 1;
            match token {
                Token::Sign('{') => {
                    let labels = self.words_until('}', &mut at);
                    if let Some(last) = found.last_mut() {
                        last.labels = labels;
                    }
                }
                Token::Word(word) if GROUPING.contains(&word.as_str()) => {
                    if self.tokens.get(at) == Some(&Token::Sign('(')) {
                        self.words_until(')', &mut at);
                    }
                }
                Token::Word(word) => {
                    let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic());
                    let is_function = match self.tokens.get(at) {
                        Some(Token::Sign('(')) => true,
                        Some(Token::Word(next)) => GROUPING.contains(&next.as_str()),
                        Some(Token::Sign(_)) | None => false,
                    };
                    if is_name && !is_function && !BINDING.contains(&word.as_str()) {
                        let (metric, labels) = (word.clone(), Vec::new());
                        found.push(Selector { metric, labels });
                    }
                }
                Token::Sign(_) => {}
            }
        }
        found
    }

    fn words_until(&self, end: char, at: &mut usize) -> Vec<String> {
        let mut words = Vec::new();
        while let Some(token) = self.tokens.get(*at) {
            *at += 1;
            match token {
                Token::Sign(sign) if *sign == end => break,
                Token::Word(word) => words.push(word.clone()),
                Token::Sign(_) => {}
            }
        }
        words
    }
}

#[test]
fn metrics_are_found_and_functions_labels_and_times_are_none() {
    let text = "histogram_quantile(0.95, sum by (verb, le) (rate(a_bucket{outcome=~\"done|gone\", verb!=\"x\"}[1h])))\n  / max without (pod) (b:c:d offset 1h) > 0.2 or vector(0)";
    let found = Expression::new(text).selectors();
    let found: Vec<(&str, Vec<&str>)> = found
        .iter()
        .map(|it| {
            (
                it.metric.as_str(),
                it.labels.iter().map(String::as_str).collect(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [("a_bucket", vec!["outcome", "verb"]), ("b:c:d", vec![])]
    );
}
