//! The commands of a page, in the form in which users type them.

/// The beginning of the line below a block that the test does not run.
const NOT_RUN: &str = "*Not run by the test: ";

/// A block of a page that users type.
#[derive(Debug, PartialEq, Eq)]
pub enum Block {
    /// Commands, each of one line.
    Commands(Vec<String>),
    /// A file with this name and content, which users write.
    File(String, String),
    /// Commands that the test does not run, for a reason that the page states.
    NotRun,
}

/// The blocks of a page. Drawings of a pipe or a tree have no language; every block with a language must be understood.
pub fn blocks(page: &str) -> Vec<Block> {
    let lines: Vec<&str> = page.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(language) = lines[at].strip_prefix("```") else {
            assert!(
                !lines[at].starts_with("    $"),
                "a block without a fence: {}",
                lines[at]
            );
            at += 1;
            continue;
        };
        let length = lines[at + 1..].iter().position(|line| *line == "```");
        let end = at + 1 + length.unwrap_or_else(|| panic!("a block without an end: {page}"));
        let body = &lines[at + 1..end];
        let above = lines[..at].iter().rfind(|line| !line.is_empty());
        let below = lines[end + 1..].iter().find(|line| !line.is_empty());
        let is_run = !below.is_some_and(|line| line.starts_with(NOT_RUN));
        match language {
            "console" if is_run => found.push(Block::Commands(commands(body))),
            "console" => found.push(Block::NotRun),
            "yaml" => found.push(file(above.unwrap_or(&""), body)),
            "" => {}
            other => panic!("what is to be done with a block of {other}?"),
        }
        at = end + 1;
    }
    found
}

/// The texts after the prompt. All other lines are output.
fn commands(body: &[&str]) -> Vec<String> {
    let typed = body.iter().filter_map(|line| line.strip_prefix("$ "));
    let typed: Vec<String> = typed.map(ToOwned::to_owned).collect();
    assert!(!typed.is_empty(), "a block without a command: {body:?}");
    let goes_on = typed.iter().find(|command| command.ends_with('\\'));
    assert_eq!(goes_on, None, "a command has one line");
    typed
}

/// The line above a file ends with its name: `` `account.yaml`: ``.
fn file(above: &str, body: &[&str]) -> Block {
    let name = above
        .strip_suffix("`:")
        .and_then(|line| line.rsplit('`').next());
    let name = name.unwrap_or_else(|| panic!("which file is it, below {above:?}?"));
    Block::File(name.to_owned(), format!("{}\n", body.join("\n")))
}

/// A text quoted as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A script that performs the blocks of a page, and prints each command before it runs.
pub fn script(page: &str, blocks: &[Block]) -> String {
    let mut script = String::new();
    for block in blocks {
        match block {
            Block::Commands(commands) => {
                for command in commands {
                    let shown = quoted(&format!("{page} $ {command}"));
                    script.push_str(&format!("printf '\\n%s\\n' {shown}\n{command}\n"));
                }
            }
            Block::File(name, text) => {
                script.push_str(&format!("printf %s {} >{}\n", quoted(text), quoted(name)));
            }
            Block::NotRun => {}
        }
    }
    script
}

#[test]
fn commands_and_files_of_a_page_are_found_and_skipped_commands_are_marked() {
    let page = "# Page\n\n```console\n$ one\nan answer\n$ two 'x'\n```\n\nIt is `a.yaml`:\n\n```yaml\na: 1\n```\n\n```console\n$ three\n```\n\n\
                *Not run by the test: it costs.*\n\n```\ndrawn\n```\n";
    let found = blocks(page);
    let commands = Block::Commands(vec!["one".to_owned(), "two 'x'".to_owned()]);
    let file = Block::File("a.yaml".to_owned(), "a: 1\n".to_owned());
    assert_eq!(found, [commands, file, Block::NotRun]);
    assert_eq!(
        script("p", &found),
        "printf '\\n%s\\n' 'p $ one'\none\nprintf '\\n%s\\n' 'p $ two '\\''x'\\'''\ntwo 'x'\nprintf %s 'a: 1\n' >'a.yaml'\n"
    );
}
