import { EvaluationError } from '../../expression/expression.js'
import { fixedTextsOf } from '../../expression/template.js'
import { isPossible, VARIABLE_TEXTS } from '../../expression/value-sets.js'
import type { Flow, FlowRequest } from '../../flow/flow.js'
import { NEVER_WRITTEN } from '../../flow/headers.js'
import { type PathProblem, RequestTarget } from '../../flow/target.js'
import { refuse, respond } from '../../flow/verdict.js'
import { defineErrors } from '../../lib/errors.js'
import { foreignReference, withGroupReferences } from '../../lib/regex.js'
import { defineAction, ERROR_RESULTS, type Replacing, type Scope } from '../../policy/action.js'
import { config, headerMap } from '../../policy/fields.js'
import { foreignVariableIn, VARIABLE_PATTERN } from '../../policy/foreign-variables.js'
import { policyErrors } from '../../policy/problems.js'
import { compileHeaders, compilePattern } from '../../policy/values.js'
import { policyWarnings } from '../../policy/warnings/codes.js'
import { implies } from '../../schema/editor.js'
import { choice, optional, regex, template } from '../../schema/values.js'
import { defineFeature } from '../contract.js'
import { BEGINS_BEHIND_HOST, replaceMatches, settled, textOf } from './request-text.js'

/** Results of the actions that rewrite a URL. */
const MATCHED = {
  matches: ['list<string>', 'The text that matched and its groups; empty when nothing did.'],
  url: ['string', 'The URL that came of it.'],
  ...ERROR_RESULTS
} as const

/** Maximum characters of a URL times instructions of the pattern: about ten milliseconds. */
const MAX_WORK = 8_000_000

/** JSON schema for editors: no variables of other proxies. */
const REPLACEMENT = { not: { type: 'string', pattern: VARIABLE_PATTERN } }
/** JSON schema for editors: without `from`, `to` is not empty. */
const WHOLE_URL = implies({ not: { required: ['from'] } }, { properties: { to: { pattern: '\\S' } } })

/** Error codes of `redirect` and `url-rewrite`. */
const urlErrors = defineErrors({
  URL_HOST_FORGED: {
    status: 400,
    text: 'A policy would put text of the request into the host of the new URL.',
    help: 'Let the replacement begin with a slash, or end the host in it with one.'
  }
})

interface Replaced {
  /** Result: a full URL unless `to` replaced all of it. Undefined: request data would be in its host. */
  readonly text: string | undefined
  /** First match and its groups; empty without a match. */
  readonly matches: readonly string[]
}

/** Applies `from` → `to` to the URL of a request. Throws `EvaluationError`. */
type UrlReplacing = (target: RequestTarget, flow: Flow) => Replaced

/**
 * Compiles `from` and `to` of `redirect` and `url-rewrite`.
 *
 * The pattern is searched in the full URL, scheme to query, unanchored. A pattern that begins with `/` or `^/`, or that matches only a path
 * and no URL, applies to path and query after the authority: `/.*` would otherwise match the slashes of `https://`. Without `from`, `to`
 * replaces the whole URL.
 */
function compileReplacing(from: string | undefined, to: string, times: 'first' | 'all', scope: Scope): UrlReplacing {
  const replacement = scope.template(from === undefined ? to : withGroupReferences(to, from), ['to'])
  const foreign = foreignReference(to)
  if (foreign !== undefined) {
    const message = `"${foreign.written}" is no reference to a group here; write ${foreign.right}`
    scope.problem(['to'], policyErrors.CONFIG_INVALID, message)
  }
  const variable = foreignVariableIn(fixedTextsOf(to).join(''))
  if (variable !== undefined) {
    const message = `"${variable.written}" is not a variable of this language; write ${variable.right}`
    scope.problem(['to'], policyErrors.CONFIG_INVALID, message)
  }
  if (from === undefined)
    return (target, flow) => ({ text: settled(textOf(replacement, flow), target), matches: [target.url] })
  const pattern = compilePattern(from, ['from'], scope)
  const known = scope.template(from, ['from']).constant
  const namesOrigin = /^https?:\/\//i.test(to)
  const constantAboutPath = known === undefined ? undefined : isAboutPath(known, scope)
  return (target, flow) => {
    const regex = pattern(flow)
    const aboutPath = constantAboutPath ?? PATH_BEGINNING.test(regex.pattern)
    const text = aboutPath ? target.uri : target.url
    if (text.length * regex.size > MAX_WORK) {
      throw new EvaluationError('failed', 'the pattern is too large for a URL of this length')
    }
    const match = regex.exec(text)
    if (match === undefined) return { text: target.url, matches: [] }
    const origin = `${target.scheme}://${target.authority}`
    const replaced = replaceMatches(regex, text, aboutPath ? 0 : origin.length, textOf(replacement, flow), times)
    // A complete URL in `to`, written in the policy, replaces everything before it.
    if (!aboutPath || (namesOrigin && match.start === 0))
      return { text: settled(replaced, target), matches: match.groups }
    const slash = BEGINS_BEHIND_HOST.test(replaced) ? '' : '/'
    return { text: settled(origin + slash + replaced, target), matches: match.groups }
  }
}

/** Start of a pattern for the path: `/old`, `^/old`, `^\/old`. */
const PATH_BEGINNING = /^(?:\(\?[a-z]+\))?(?:\^|\\A)?\\?\/(?!\\?\/)/

/** Returns true if a pattern applies to path and query: by its start, or because it matches them and no URL. */
function isAboutPath(from: string, scope: Scope): boolean {
  const written = PATH_BEGINNING.test(from)
  if (!written && matchesSome('req.url', from)) return false
  if (matchesSome('req.url.uri', from)) return true
  const message = `no URL matches ${from}: a URL is written as https://host/path?query, and a pattern that begins with ^/ is matched with path and query`
  scope.warn(['from'], policyWarnings.LITERAL_NEVER_EQUAL, message)
  return written
}

function matchesSome(variable: 'req.url' | 'req.url.uri', pattern: string): boolean {
  const values = VARIABLE_TEXTS[variable]
  return values === undefined || isPossible(values, 'pattern', pattern)
}

/** Characters that must be encoded in a URL (RFC 3986 2): controls, space, excluded ASCII, and everything beyond ASCII. */
const UNSAFE = /[^\x21-\x7e]|["<>\\^`{|}]/gu

/**
 * Percent-encodes characters that a URL cannot contain as UTF-8; existing escapes are kept. So a line break from decoded client data
 * becomes `%0D%0A` again, and a backslash is never used as a slash.
 */
export function asUrl(text: string): string {
  return text.replace(UNSAFE, (character) => {
    let encoded = ''
    for (const byte of Buffer.from(character, 'utf8')) encoded += `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
    return encoded
  })
}

function replacing({ from, to }: { readonly from?: string; readonly to: string }): readonly Replacing[] {
  return [{ from, to: from === undefined ? to : withGroupReferences(to, from), at: ['to'] }]
}

/** Field `from` of both actions. */
const FROM = optional(
  regex({
    description:
      'RE2 pattern, searched in the full URL; one that begins with ^/ in path and query. The whole URL when left out.'
  })
)
const STATUSES = [301, 302, 303, 307, 308]
const RESERVED = { location: '"location" is what to says; it cannot be given as a header' }

/** Redirects the client to the request's URL with the first match replaced. An unchanged URL is not redirected. */
const redirect = defineAction({
  type: 'redirect',
  summary: 'Answers with a redirect to another URL.',
  example: {
    policy: `on_http_request:
  - actions:
      - type: redirect
        config:
          from: ^http://([^/]+)/old/(.*)$
          to: https://$1/new/$2
          status_code: 301
`,
    request: 'GET /old/page',
    status: 301
  },
  phases: ['on_http_request'],
  config: config(
    {
      from: FROM,
      to: template({
        description: 'What takes the place of the match; $1 stands for a group. Or a URL or path, without from.',
        editor: REPLACEMENT
      }),
      status_code: optional(choice(STATUSES, { description: 'Status of the redirect.', default: 302 })),
      headers: optional(
        headerMap({ description: 'Further fields of the answer.', refused: [...NEVER_WRITTEN, 'location'], max: 10 })
      )
    },
    WHOLE_URL
  ),
  configOptional: false,
  terminates: 'sometimes',
  denies: true,
  replaces: replacing,
  results: {
    name: 'redirect',
    fields: MATCHED
  },
  compile({ from, to, status_code: status = 302, headers = {} }, scope) {
    const replacing = compileReplacing(from, to, 'first', scope)
    const writing = compileHeaders(headers, ['headers'], scope, RESERVED)
    if (from === undefined && to.trim() === '') {
      scope.problem(['to'], policyErrors.CONFIG_INVALID, 'to is empty: a redirect needs a URL or a path to lead to')
    }
    const otherHost = from === undefined && to.startsWith('//')
    return (flow) => {
      const target = flow.request?.target
      if (target === undefined) return undefined
      const { text, matches } = replacing(target, flow)
      if (text === undefined) return refuse(urlErrors.URL_HOST_FORGED)
      if (text.trim() === '') throw new EvaluationError('failed', 'the URL to redirect to is empty')
      const location = locationOf(text, otherHost)
      const changed = matches.length > 0 && location !== target.url && location !== target.uri
      flow.publish('redirect', { matches, url: changed ? location : target.url, 'error.code': '', 'error.message': '' })
      return changed ? respond(Number(status), ['location', location, ...writing.fields(flow)]) : undefined
    }
  }
})

/**
 * Returns the value of `Location`. A path with two leading slashes would name another host; unless the policy itself wrote it, it is sent
 * as a path of this host.
 */
function locationOf(text: string, otherHost: boolean): string {
  const location = asUrl(text)
  return otherHost ? location : location.replace(/^\/{2,}/, '/')
}

/**
 * Rewrites the URL of the request for the upstream; the client does not see it. Every match is replaced.
 *
 * The result is normalized; an invalid one fails the exchange. The route alone selects the upstream, and `Host` is unchanged: another host
 * in the result is visible only in `req.url`, so client data cannot redirect a request to another upstream.
 */
const action = defineAction({
  type: 'url-rewrite',
  summary: 'Changes the URL that the upstream sees.',
  example: {
    policy: `on_http_request:
  - actions:
      - type: url-rewrite
        config:
          from: /v1/
          to: /
`,
    request: 'GET /v1/users',
    status: 200
  },
  misnamed: ['rewrite-url'],
  phases: ['on_http_request'],
  config: config(
    {
      from: FROM,
      to: template({
        description: 'What takes the place of each match; $1 stands for a group. Or a path, without from.',
        editor: { allOf: [REPLACEMENT, { pattern: '^(?:\\$\\{[^}]*\\}|\\$(?!\\{)|[^#$])*$' }] }
      })
    },
    WHOLE_URL
  ),
  configOptional: false,
  terminates: 'never',
  changes: ['req.url'],
  replaces: replacing,
  results: {
    name: 'url_rewrite',
    fields: MATCHED
  },
  compile({ from, to }, scope) {
    const replacing = compileReplacing(from, to, 'all', scope)
    if (to.replace(/\$\{[^}]*(?:\}|$)/g, '').includes('#')) {
      scope.problem(
        ['to'],
        policyErrors.CONFIG_INVALID,
        'to holds a "#": a request has no fragment; write %23 for the character'
      )
    }
    if (from === undefined && to.trim() === '') {
      scope.problem(['to'], policyErrors.CONFIG_INVALID, 'to is empty: a request needs a URL or a path')
    }
    return (flow) => {
      const { request } = flow
      if (request === undefined) return undefined
      const { text, matches } = replacing(request.target, flow)
      if (text === undefined) return refuse(urlErrors.URL_HOST_FORGED)
      if (text !== request.target.url) request.target = targetOf(text, request)
      flow.publish('url_rewrite', { matches, url: request.target.url, 'error.code': '', 'error.message': '' })
      return undefined
    }
  }
})

const LENIENT = 'only an edge or listener with path_form lenient lets it pass'
const HOLDS: Readonly<Record<PathProblem, string>> = {
  'not-a-path': 'is no path',
  'encoded-slash': `holds an encoded slash: ${LENIENT}`,
  backslash: `holds a backslash: ${LENIENT}`,
  'encoded-control': `holds an encoded control character: ${LENIENT}`,
  'dot-parameters': `holds a dot segment with parameters, or parameters without a segment: ${LENIENT}`
}

/** Parses `text` as a target; a path keeps scheme and authority. */
function targetOf(text: string, { target: before, pathForm }: FlowRequest): RequestTarget {
  const url = asUrl(text)
  const target = RequestTarget.fromUrl(url.startsWith('/') ? `${before.scheme}://${before.authority}${url}` : url)
  if (target === undefined) throw new EvaluationError('failed', 'the rewritten URL is no http or https URL')
  const formed = target.in(pathForm)
  if (typeof formed === 'string') throw new EvaluationError('failed', `the path of the rewritten URL ${HOLDS[formed]}`)
  return formed
}

/** Feature: the actions `redirect` and `url-rewrite`. */
export const urlRewrite = defineFeature({
  name: 'url-rewrite',
  summary: 'Redirects requests and rewrites their URL.',
  actions: [redirect, action],
  errors: [urlErrors]
})
