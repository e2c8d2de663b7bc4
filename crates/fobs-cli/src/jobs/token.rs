//! `fobs jobs token`: who may ask the keeper over the network.

use std::time::Duration;

use fobs::{Error, ErrorKind, Result};
use fobs_jobs::api::WantedToken;
use fobs_jobs::{Scope, Token};
use serde_json::json;

use super::place::Choice;
use super::{print, print_json, reach};
use crate::args::jobs::{JobsArgs, NewToken, TokenCommand};
use crate::output::{self, printable};
use crate::times::shown;

/// Runs `fobs jobs token`.
///
/// # Errors
/// Where the keeper refuses or does not answer, or nothing can be printed.
pub fn run(command: &TokenCommand, args: &JobsArgs) -> Result<()> {
    if args.url.is_some() {
        let why = "tokens are made, listed and revoked on the keeper's host: leave --url out";
        return Err(Error::new(ErrorKind::Usage, why));
    }
    match command {
        TokenCommand::Create(new) => create(new, args.json),
        TokenCommand::List => list(args.json),
        TokenCommand::Revoke(one) => {
            let token = reach::asked(reach::client(Choice::Usual)?.revoke_token(one.id))?;
            if args.json { print_json(&serde_json::to_value(&token).unwrap_or_default()) } else { Ok(()) }
        }
    }
}

fn create(new: &NewToken, json: bool) -> Result<()> {
    let expires_s = new.expires.max(Duration::from_secs(1)).as_secs();
    let wanted = WantedToken { name: new.name.clone(), scopes: new.scope.clone(), expires_s };
    let made = reach::asked(reach::client(Choice::Usual)?.create_token(&wanted))?;
    if json {
        return print_json(&json!({"token": made.token, "secret": made.secret}));
    }
    output::note(&format!(
        "token {} is good for {} until {}; it is not shown again, so keep it in a file that only its owner reads",
        made.token.id,
        scopes(&made.token),
        shown(made.token.expires_ms)
    ));
    print(&format!("{}\n", made.secret))
}

fn list(json: bool) -> Result<()> {
    let Some(client) = reach::client_if_any(Choice::Usual)? else { return Ok(()) };
    for token in reach::asked(client.tokens())? {
        if json {
            print_json(&serde_json::to_value(&token).unwrap_or_default())?;
            continue;
        }
        let state = match token.revoked_ms {
            Some(revoked_ms) => format!("revoked {}", shown(revoked_ms)),
            None => format!("until {}", shown(token.expires_ms)),
        };
        print(&format!("{}  {}  {state}  {}\n", token.id, scopes(&token), printable(&token.name)))?;
    }
    Ok(())
}

fn scopes(token: &Token) -> String {
    let names: Vec<&str> = token.scopes.iter().copied().map(Scope::name).collect();
    names.join(",")
}
