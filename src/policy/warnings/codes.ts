import { expressionErrors } from '../../expression/problems.js'
import { defineErrors, type ErrorRow, messageOf } from '../../lib/errors.js'
import { policyErrors } from '../problems.js'

/** Codes of warnings: valid policies whose effect may differ from the author's intent. */
export const policyWarnings = defineErrors({
  RULE_FAILS_OPEN: {
    text: 'A rule that denies does not match when a value is absent, and lets the request pass.',
    help: 'Also test whether the value is there, as the message shows.'
  },
  RULE_NEVER_MATCHES: {
    text: 'The expressions of a rule are true for no request.',
    help: 'Correct the expression that the message names, or remove the rule; all expressions of a rule must be true.'
  },
  LITERAL_NEVER_EQUAL: {
    text: 'A literal is compared with a value that is never written so.',
    help: 'Write it as the message shows; in a rule that denies it is an error, because the rule would not deny what it names.'
  },
  RULE_UNREACHABLE: {
    text: 'A rule never runs, because one before it ends the phase for every request.',
    help: 'Remove it, move it before the other, or give the other an expression.'
  },
  RULE_SHADOWED: {
    text: 'A rule never runs, because one before it matches the same requests and more, and ends the phase.',
    help: 'Move the rule with the narrower expressions before the other.'
  },
  CONDITION_ALWAYS_TRUE: {
    text: 'A condition of a rule is true for every request.',
    help: 'Correct it, or remove it if the rule is meant for every request.'
  },
  ACTION_UNREACHABLE: {
    text: 'The action never runs, because one before it always ends the rule.',
    help: 'Remove it, or move it before the other.'
  },
  GROUP_MISSING: {
    text: 'A replacement names a group that its pattern does not have, and gets an empty text in its place.',
    help: 'Count the parentheses of the pattern, or write $$ for a dollar.'
  },
  LIMIT_NAME_REPEATED: {
    text: 'Two limits of a document have one name; each counts by itself, and what is measured of them is mixed.',
    help: 'Give each limit a name of its own, or use one limit in a rule for both.'
  },
  LIMIT_KEY_SHARED: {
    text: 'A limit puts all clients that leave out a value of its key into one bucket.',
    help: 'Let the rule ask for the value, or add conn.client_ip to the bucket_key.'
  },
  LIMIT_KEY_IPV6: {
    text: 'A limit has a bucket for each address, and listeners take IPv6, where one client has many.',
    help: 'Use ipPrefix(conn.client_ip, 32, 64) in its bucket_key.'
  },
  LIMIT_WINDOW_SHORT: {
    text: 'A limit has a window below a minute, which a process accepts only with limiter.short_windows: on.',
    help: 'Set limiter.short_windows: on where the policy runs, or write a `rate` of 60s or more.'
  },
  HEADER_FORGEABLE: {
    text: 'A header that the upstream may trust can also come from the client.',
    help: 'Remove the header with remove-headers before it is added.'
  },
  LOGIN_AMBIGUOUS: {
    text: 'Two actions ask for a login under the same auth_id.',
    help: 'Give each of them an auth_id of its own.'
  },
  UNIT_MISSING: {
    text: 'The document names something of the configuration that does not exist now.',
    help: 'Create it, or correct the name.'
  }
})

const ROWS = [policyWarnings, policyErrors, expressionErrors].flatMap((table) => Object.values<ErrorRow>(table))

interface Said {
  readonly code: string
  readonly message: string
}

/** Returns a warning's text without quotes from its document, since a literal may be a secret. */
export function withoutText(warning: Said): string {
  return generalText(warning) ?? 'sluice check shows it in full'
}

/** Returns a warning's text for the log. */
export function loggedWarning(warning: Said): string {
  const text = generalText(warning)
  return text === undefined ? 'a warning, which sluice check shows in full' : `a policy: ${text}`
}

function generalText({ code, message }: Said): string | undefined {
  // Names of units are logged for the units anyway, and the warning needs them.
  if (code === policyWarnings.UNIT_MISSING.code) return message
  const row = ROWS.find((one) => one.code === code)
  return row === undefined ? undefined : messageOf(row)
}
