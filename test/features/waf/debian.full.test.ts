import { existsSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { buildRules } from '../../../src/features/waf/build-rules.js'
import { compileCrs } from './crs-suite.js'
import { attacksLike, decideRequest, HARMLESS_SETTINGS, harmlessRequests, hasValues } from './harmless.js'

/** Files of Debian's package `modsecurity-crs`. */
const RULES = '/usr/share/modsecurity-crs/rules'
const SETUP = '/etc/modsecurity/crs/crs-setup.conf'

const skip = existsSync(RULES) && existsSync(SETUP) ? false : "Debian's package modsecurity-crs is not installed"

/** Links rules and set-up file into one folder, as the documentation says. */
function linkRules(t: Test): string {
  const folder = t.testdir({})
  symlinkSync(RULES, join(folder, 'rules'))
  symlinkSync(SETUP, join(folder, 'crs-setup.conf'))
  return folder
}

/** Reasons for which rules are left out. */
const REASONS = [
  // Persistent collections and lookups
  /the variable (?:IP|DURATION|GEO) is not known$/,
  /the operator @rbl is not known$/,
  // Patterns outside of RE2 syntax
  /(?:look-ahead and look-behind|possessive and atomic groups) are not part of RE2 syntax$/,
  /a pattern cannot contain a macro$/
]

t.test("Debian's rules are read; those that are left out are named with the reason", { skip }, async (t) => {
  const folder = linkRules(t)
  await t.rejects(buildRules(folder, { skip_unknown: false }), {
    code: 'WAF_RULES_INVALID',
    message: /REQUEST-901-INITIALIZATION\.conf:\d+: the variable DURATION is not known/
  })
  const { source } = await buildRules(folder, { skip_unknown: true })
  t.match(source.signature, /^OWASP_CRS\/\d+\.\d+/)
  t.ok(source.items.length > 600, `${source.items.length} items`)
  t.ok(source.skipped.length <= 25, `${source.skipped.length} rules are left out`)
  t.same(
    source.skipped.filter((line) => !REASONS.some((reason) => reason.test(line))),
    []
  )
})

/** Harmless requests that ModSecurity 3.0.9 denies with these rules, in version 3.3.4. */
const DENIED = new Set([
  ...['search with quotes', 'markdown', 'update a profile', 'GraphQL query', 'GraphQL mutation', 'GraphQL fragment'],
  ...['weblog: article of the editor', 'code: comment', 'code: comment with a command', 'code: comment with SQL'],
  ...['code: comment with a script', 'code: review', 'code: hook of a push', 'code: wiki page', 'wiki: special page'],
  ...['metrics: query of a dashboard', 'metrics: SQL panel', 'GraphQL: list with a filter'],
  ...['GraphQL: mutation with input', 'GraphQL: update', 'GraphQL: subscription', 'API: formula', 'framework: Rails'],
  ...['login: a password with signs', 'form: survey', 'markdown: links', 'markdown: code in Python'],
  ...['markdown: a path', 'proxy: policy', 'proxy: route', 'proxy: policy with a log']
])

t.test("Debian's rules deny attacks, and no harmless request that another engine passes", { skip }, async (t) => {
  const rules = await compileCrs(linkRules(t), HARMLESS_SETTINGS, true)
  const denied = harmlessRequests.filter((one) => decideRequest(rules, one).isDenied).map(({ name }) => name)
  t.same(
    denied.filter((name) => !DENIED.has(name)),
    []
  )
  const attacks = harmlessRequests.filter(hasValues).flatMap(attacksLike)
  t.ok(attacks.length >= 300, `${attacks.length} attacks`)
  t.same(
    attacks.filter((one) => !decideRequest(rules, one).isDenied).map(({ name }) => name),
    []
  )
})
