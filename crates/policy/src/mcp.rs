//! Tools of MCP servers: what their names suggest, and whether a call may run without a card.
//!
//! The server names its own tools, so a name opens nothing. What opens is the operator's list, or the operator's word for
//! a whole server, and that not for names that smell of credentials.

/// What a name suggests. Shown on the card and in the log; it decides nothing alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// It sounds like reading.
    Safe,
    /// It sounds like changing something, or like a secret.
    Danger,
    /// It sounds like nothing that is known.
    Unknown,
}

/// What the operator said of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Every call needs a card.
    ApprovalRequired,
    /// Ordinary reads run without a card.
    Trusted,
}

/// The operator's settings for tools of MCP servers.
#[derive(Debug, Clone, Copy)]
pub struct McpRules<'a> {
    /// `KAZMA_MCP_SAFE_ALLOWLIST`: whole names, `mcp__server__tool`.
    pub allowlist: &'a [String],
    /// `KAZMA_PRODUCTION`.
    pub production: bool,
    /// `KAZMA_MCP_TRUSTED_IN_PROD`.
    pub trusted_in_production: bool,
}

/// Whether a call needs a card, and why, in a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpAnswer {
    /// Whether somebody is asked.
    pub ask: bool,
    /// Why.
    pub reason: &'static str,
}

/// Words that read.
const READS: &str = "read list search get info status check describe query count exists help tree find show cat view";
/// Words that change, send, run or undo.
const CHANGES: &str = "write create update delete remove drop insert set put post patch send publish upload push commit \
    merge execute exec run eval shell bash command spawn kill terminate stop start restart deploy install uninstall move rename \
    copy edit modify append truncate purge clear wipe destroy format grant revoke approve deny transfer pay order buy \
    book cancel schedule invite share subscribe fork clone apply migrate import reset reboot shutdown enable disable \
    download fetch request call invoke click navigate type \
    add save upsert replace overwrite undo redo revert restore rollback rebase checkout submit dispatch notify register \
    unregister attach detach connect disconnect login logout toggle rotate generate regenerate make mkdir rm del unlink touch \
    chmod chown erase flush sync upgrade downgrade pause resume retry rerun reopen close assign unassign reassign unsubscribe \
    unpublish unlock mark forward reply sign encrypt decrypt provision withdraw sell \
    increment decrement archive unarchive export dump trigger enqueue dequeue consume expire renew refund mint burn ack \
    acknowledge dismiss snooze ban unban unblock unfollow unstar untag unmute evict resize promote demote discard trash \
    recycle mutate alter acquire http https curl wget telnet tunnel";
/// Words of secrets.
const SECRETS: &str = "secret secrets token tokens auth oauth password passwords passwd passphrase credential credentials \
    key keys apikey keychain keyring cookie cookies session sessions env environ environment dotenv vault cert certs \
    certificate pem ssh gpg pgp private signing otp totp mfa pin ssn iban card cvv wallet seed mnemonic \
    creds cred certificates envs otps wallets seeds pwd passcode passcodes passkey passkeys keystore keyfile \
    gnupg webhook webhooks keyvault bearer jwt jwts pat pats login logins netrc npmrc kubeconfig htpasswd shadow dsn hmac";

/// Parts of names that are secrets wherever they stand.
const ANYWHERE: [&str; 21] = [
    "secret",
    "token",
    "passw",
    "credential",
    "apikey",
    "sshkey",
    "privatekey",
    "keychain",
    "cookie",
    "environ",
    "dotenv",
    "vault",
    "connectionstring",
    "databaseurl",
    "dburl",
    "accesscode",
    "recoverycode",
    "backupcode",
    "2fa",
    "idrsa",
    "sessionid",
];

/// Whether a call of the tool `name` of a server with this trust needs a card.
///
/// `name` is the whole name, `mcp__server__tool`. A name that cannot be one of ours asks.
pub fn decide_mcp(name: &str, trust: Trust, rules: &McpRules<'_>) -> McpAnswer {
    let asks = |reason| McpAnswer { ask: true, reason };
    let runs = |reason| McpAnswer { ask: false, reason };
    let Some(tool) = leaf(name) else {
        return asks("its name is not one that an MCP tool can have");
    };
    if rules.allowlist.iter().any(|listed| listed == name) {
        return runs("the operator listed this tool");
    }
    if trust == Trust::ApprovalRequired {
        return asks("tools of MCP servers are asked about, whatever they are called");
    }
    if rules.production && !rules.trusted_in_production {
        return asks("in production a server's trust does not count");
    }
    if smells_of_secrets(tool) {
        return asks("its name suggests that it shows credentials");
    }
    match label_mcp(name) {
        Label::Safe => {
            runs("the operator trusts this server, and the name suggests an ordinary read")
        }
        Label::Danger => asks("its name suggests that it changes something"),
        Label::Unknown => asks("its name suggests nothing that is known"),
    }
}

/// What a tool's name suggests, by the words of its last part.
pub fn label_mcp(name: &str) -> Label {
    let Some(tool) = leaf(name) else {
        return Label::Danger;
    };
    let words = words(tool);
    if smells_of_secrets(tool) || words.iter().any(|word| has(CHANGES, word)) || checks_in(&words) {
        return Label::Danger;
    }
    if does_more(&words) {
        return Label::Unknown;
    }
    if words.iter().any(|word| has(READS, word)) {
        return Label::Safe;
    }
    Label::Unknown
}

/// The server's own name of a tool; none if the whole is not `mcp__server__tool` of plain letters.
fn leaf(name: &str) -> Option<&str> {
    let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    let plain = |part: &str| {
        !part.is_empty()
            && part.len() <= 128
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    (plain(server) && plain(tool)).then_some(tool)
}

/// `check_in` and `check_out` read nothing.
fn checks_in(words: &[String]) -> bool {
    words.windows(2).any(|pair| {
        pair.first().is_some_and(|word| word == "check")
            && pair
                .last()
                .is_some_and(|word| word == "in" || word == "out")
    })
}

/// Whether a name goes on after *and*, *or* or *then* with something that is no read, as in `get_and_store`.
fn does_more(words: &[String]) -> bool {
    words.windows(2).any(|pair| {
        let joins = pair.first().is_some_and(|word| has("and or then", word));
        joins && pair.last().is_some_and(|word| !has(READS, word))
    })
}

/// Whether a name has a word of secrets, also where it is glued to others.
fn smells_of_secrets(tool: &str) -> bool {
    let glued = tool
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    words(tool).iter().any(|word| has(SECRETS, word))
        || ANYWHERE.iter().any(|part| glued.contains(part))
}

/// The words of a name: parted by signs, by digits, and where small letters are followed by a capital.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let parts =
            !c.is_ascii_alphabetic() || (c.is_ascii_uppercase() && before.is_ascii_lowercase());
        if parts {
            words.push(String::new());
        }
        if c.is_ascii_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn has(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|known| known == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: McpRules<'_> = McpRules {
        allowlist: &[],
        production: false,
        trusted_in_production: false,
    };

    #[test]
    fn a_name_alone_opens_nothing() {
        for tool in [
            "get_file",
            "read_env",
            "get_ssh_key",
            "list_env_vars",
            "list_directory",
            "help",
        ] {
            let name = format!("mcp__files__{tool}");
            assert!(
                decide_mcp(&name, Trust::ApprovalRequired, &HOME).ask,
                "{tool}"
            );
        }
    }

    #[test]
    fn a_trusted_server_reads_but_shows_no_credentials_and_changes_nothing() {
        let asks = |tool: &str| decide_mcp(&format!("mcp__s__{tool}"), Trust::Trusted, &HOME).ask;
        for tool in [
            "list_directory",
            "getFile",
            "search-issues",
            "status",
            "describeTable",
            "get_address",
            "list_open_issues",
            "search_messages",
            "get_patient",
            "search_and_count",
            "check_status",
        ] {
            assert!(!asks(tool), "{tool}");
        }
        for tool in [
            "read_env",
            "get_ssh_key",
            "getApiKey",
            "list_env_vars",
            "readDotenv",
            "get_accesstoken",
            "showPasswords",
            "write_file",
            "get_or_create",
            "deleteAll",
            "frobnicate",
            "list_cookies",
            "viewVaultItem",
            "get_creds",
            "show_connection_string",
            "read_kubeconfig",
            "list_recovery_codes",
            "get2faCode",
            "search_and_replace",
            "get_or_add",
            "get_and_store",
            "listThenLock",
            "check_out_book",
            "http_get",
            "get_database_url",
            "list_webhooks",
            "list_and_close",
            "read_and_mark_done",
            "run_query",
            "x__read_file",
            "",
            "lіst",
            "read file",
        ] {
            assert_eq!(asks(tool), tool != "x__read_file", "{tool}");
        }
    }

    #[test]
    fn production_takes_the_trust_away_and_the_list_stays() {
        let listed = ["mcp__s__read_env".to_owned()];
        let mut rules = McpRules {
            allowlist: &listed,
            production: true,
            trusted_in_production: false,
        };
        assert!(decide_mcp("mcp__s__list_directory", Trust::Trusted, &rules).ask);
        assert!(!decide_mcp("mcp__s__read_env", Trust::ApprovalRequired, &rules).ask);
        assert!(decide_mcp("mcp__other__read_env", Trust::ApprovalRequired, &rules).ask);
        assert!(decide_mcp("mcp__s__read_envs", Trust::Trusted, &rules).ask);
        rules.trusted_in_production = true;
        assert!(!decide_mcp("mcp__s__list_directory", Trust::Trusted, &rules).ask);
    }

    #[test]
    fn labels_are_as_the_reference_gives_them_but_for_secrets() {
        for (tool, label) in [
            ("read_file", Label::Safe),
            ("list_directory", Label::Safe),
            ("delete_file", Label::Danger),
            ("get_secret", Label::Danger),
            ("get_ssh_key", Label::Danger),
            ("frobnicate", Label::Unknown),
        ] {
            assert_eq!(label_mcp(&format!("mcp__s__{tool}")), label, "{tool}");
        }
        assert_eq!(label_mcp("read_file"), Label::Danger);
    }
}
