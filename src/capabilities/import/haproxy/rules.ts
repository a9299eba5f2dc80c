import { toRe2 } from '../cel.js'
import { close, EXACT, notHere, type RouteAction, type Verdict } from '../model.js'
import { type Acls, authListOf, conditionCel, rateOf, splitCondition } from './conditions.js'
import { formatTemplate } from './samples.js'
import type { HaproxyLine } from './syntax.js'

export interface User {
  readonly name: string
  /** Not set: a hash that Sluice does not know. */
  readonly password?: string
}

/** Names that the rules of a section refer to. */
export interface RuleContext {
  readonly acls: Acls
  readonly users: ReadonlyMap<string, readonly User[]>
  /** Period of `http_req_rate` of the stick table that the section tracks, in seconds. */
  readonly ratePeriod?: number
  readonly section: string
}

interface Rule {
  readonly actions: readonly RouteAction[]
  readonly verdict: Verdict
}

const HARMLESS = [
  'capture',
  'set-log-level',
  'set-nice',
  'set-tos',
  'set-mark',
  'set-priority-class',
  'unset-var',
  'disable-l7-retry',
  'early-hint',
  'add-acl',
  'del-acl',
  'set-map',
  'del-map',
  'track-sc0',
  'track-sc1',
  'track-sc2',
  'sc-inc-gpc0',
  'normalize-uri',
  'cache-use',
  'set-timeout',
  'do-resolve',
  'set-var',
  'set-var-fmt'
]

const NO_VALUE = notHere('its value has no counterpart', 'write the action with an expression')
const closed = (at: RouteAction['at'], reason: string, instead = 'write a rule of the policy'): Rule => ({
  actions: [{ kind: 'respond', status: 503, at }],
  verdict: notHere(`${reason}; the route answers 503`, instead)
})

/** A rule `http-request …` without its first word, or `redirect …`. */
export function readRequestRule({ words: written, at }: HaproxyLine, context: RuleContext): Rule {
  const { words, condition } = splitCondition(written, context.acls)
  const [name = '', ...args] = words
  const list = condition === undefined ? undefined : authListOf(condition)
  if (name === 'auth' || (name === 'deny' && list !== undefined)) return readAuth(args, list, context, at)
  const rate = condition === undefined ? undefined : rateOf(condition)
  if (rate !== undefined && ['deny', 'tarpit', 'reject'].includes(name)) return readRate(rate, context, at)
  if (HARMLESS.includes(name)) {
    const isTrack = name.startsWith('track')
    return {
      actions: [],
      verdict: isTrack
        ? close('the rate limit has its key')
        : close('it changes no answer by itself, and has no counterpart')
    }
  }
  const when = conditionCel(condition)
  const rule = requestAction(name, args, at)
  if (when === undefined) {
    const isField = name.endsWith('-header')
    return isField
      ? { actions: [], verdict: notHere('its condition has no counterpart', 'write an expression') }
      : closed(at, 'its condition has no counterpart', 'write an expression')
  }
  return { ...rule, actions: when === 'true' ? rule.actions : rule.actions.map((action) => ({ ...action, when })) }
}

function requestAction(name: string, args: readonly string[], at: RouteAction['at']): Rule {
  const [first = '', ...rest] = args
  switch (name) {
    case 'set-header':
    case 'add-header':
    case 'del-header':
      return readField(name, args, at)
    case 'deny':
    case 'tarpit': {
      const status = Number(
        valueAfter(args, 'deny_status') ?? valueAfter(args, 'status') ?? (name === 'deny' ? 403 : 500)
      )
      return {
        actions: [{ kind: 'respond', status, at }],
        verdict: close(
          name === 'deny' ? 'the body is empty in place of the page of HAProxy' : 'the answer comes at once'
        )
      }
    }
    case 'reject':
    case 'silent-drop':
      return { actions: [{ kind: 'close', at }], verdict: EXACT }
    case 'redirect':
      return readRedirect(args, at)
    case 'return':
      return readReturn(args, at)
    case 'set-path':
    case 'set-pathq':
    case 'set-uri': {
      const template = formatTemplate(first)
      if (template === undefined) return closed(at, 'its value has no counterpart')
      return {
        actions: [{ kind: 'rewrite', pattern: name === 'set-path' ? '^[^?]*' : '^.*$', to: template, at }],
        verdict: EXACT
      }
    }
    case 'replace-path':
    case 'replace-pathq':
    case 'replace-uri': {
      const pattern = toRe2(first)
      const to = (rest[0] ?? '').replace(/\$/g, '$$$$').replace(/\\(\d)/g, '$$$1')
      if (pattern === undefined || to.includes('%[')) return closed(at, 'its expression or value has no counterpart')
      // The expression sees the path alone, so that its end is before the query.
      const end = name === 'replace-path' && /\(\.\*\)\$?$/.test(pattern)
      const limited = end ? pattern.replace(/\(\.\*\)\$?$/, '([^?]*)') : pattern
      return { actions: [{ kind: 'rewrite', pattern: limited, to, at }], verdict: EXACT }
    }
    case 'set-src':
      return { actions: [], verdict: close('the option trusted_proxies names the proxies whose addresses count') }
    default:
      return closed(at, `"${name}" has no counterpart`)
  }
}

const OWN_FIELDS = ['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host', 'x-forwarded-port', 'connection']

function readField(name: string, [field = '', value = '']: readonly string[], at: RouteAction['at']): Rule {
  const lower = field.toLowerCase()
  const template = name === 'del-header' ? '' : formatTemplate(value)
  if (template === undefined) return { actions: [], verdict: NO_VALUE }
  if (lower === 'host') return { actions: [], verdict: close('the upstream gets the host that the client asked for') }
  if (OWN_FIELDS.includes(lower)) return { actions: [], verdict: close('Sluice writes it by itself') }
  return {
    actions: [{ kind: 'request-header', name: lower, value: template, at }],
    verdict: name === 'add-header' ? close('it takes the place of the same field of the client') : EXACT
  }
}

export const valueAfter = (words: readonly string[], name: string): string | undefined => {
  const index = words.indexOf(name)
  return index === -1 ? undefined : words[index + 1]
}

/** `redirect location|prefix|scheme <to> [code n]`. */
function readRedirect(args: readonly string[], at: RouteAction['at']): Rule {
  const status = Number(valueAfter(args, 'code') ?? 302)
  const [location, prefix, scheme] = ['location', 'prefix', 'scheme'].map((word) => valueAfter(args, word))
  const to =
    location !== undefined
      ? formatTemplate(location)
      : prefix !== undefined
        ? embeddedAfter(formatTemplate(prefix))
        : scheme === 'https' || scheme === 'http'
          ? `${scheme}://\${req.url.host}\${req.url.uri}`
          : undefined
  const isKnown = status === 301 || status === 302 || status === 303 || status === 307 || status === 308
  if (to === undefined || !isKnown) return closed(at, 'its target has no counterpart')
  const others = ['drop-query', 'append-slash', 'set-cookie', 'clear-cookie', 'ignore-empty'].filter((word) =>
    args.includes(word)
  )
  return {
    actions: [{ kind: 'redirect', status, to, at }],
    verdict: others.length === 0 ? EXACT : close(`${others.join(', ')} is not done`)
  }
}

const embeddedAfter = (template: string | undefined) =>
  template === undefined ? undefined : `${template}\${req.url.uri}`

/** `return [status n] [content-type t] [string|lf-string s]`. */
function readReturn(args: readonly string[], at: RouteAction['at']): Rule {
  const status = Number(valueAfter(args, 'status') ?? 200)
  const contentType = valueAfter(args, 'content-type')
  const [text, format] = [valueAfter(args, 'string'), valueAfter(args, 'lf-string')]
  const body =
    text === undefined ? (format === undefined ? undefined : formatTemplate(format)) : text.replaceAll('${', "${'${'}")
  const isOther = ['file', 'lf-file', 'errorfile', 'errorfiles', 'default-errorfiles', 'hdr'].some((word) =>
    args.includes(word)
  )
  if (isOther || (format !== undefined && body === undefined))
    return closed(at, 'its body or fields have no counterpart', 'write custom-response')
  return {
    actions: [
      {
        kind: 'respond',
        status,
        ...(body === undefined ? {} : { body }),
        ...(contentType === undefined ? {} : { contentType }),
        at
      }
    ],
    verdict: EXACT
  }
}

function readAuth(
  args: readonly string[],
  list: string | undefined,
  { users }: RuleContext,
  at: RouteAction['at']
): Rule {
  const known = list === undefined ? undefined : users.get(list)
  const credentials = known?.map(({ name, password }) =>
    password === undefined || password.length < 8 || password.includes('${') ? undefined : `${name}:${password}`
  )
  if (credentials === undefined || credentials.length === 0 || credentials.includes(undefined))
    return closed(
      at,
      'its condition, or the hashes of its users, have no counterpart',
      'write basic-auth with hashes of `sluice hash-password`'
    )
  const realm = valueAfter(args, 'realm') ?? 'haproxy'
  return {
    actions: [{ kind: 'native', phase: 'request', type: 'basic-auth', config: { realm, credentials }, at }],
    verdict: close('passwords stand in the site file; `sluice hash-password` makes hashes')
  }
}

/** Windows of `rate-limit` have a minute to a day. */
function readRate(count: number, { ratePeriod, section }: RuleContext, at: RouteAction['at']): Rule {
  if (ratePeriod === undefined || ratePeriod <= 0)
    return closed(at, 'its stick table has no rate of requests', 'write rate-limit')
  const window = Math.min(86_400, Math.max(60, Math.ceil(ratePeriod / 10) * 10))
  const capacity = Math.max(1, Math.round((count * window) / ratePeriod))
  return {
    actions: [{ kind: 'rate-limit', name: section, capacity, window, key: 'conn.client_ip', at }],
    verdict: close(
      `${capacity} requests in any ${window} seconds are counted exactly, for each address of clients; refused requests get 429 and do not count`
    )
  }
}

/** A rule `http-response …` without its first word. */
export function readResponseRule({ words: written, at }: HaproxyLine, { acls }: RuleContext): Rule {
  const { words, condition } = splitCondition(written, acls)
  const [name = '', field = '', value = ''] = words
  const when = conditionCel(condition)
  const template = name === 'del-header' ? '' : formatTemplate(value)
  if (name === 'deny')
    return {
      actions: [
        {
          kind: 'native',
          phase: 'response',
          type: 'deny',
          config: { status_code: 502 },
          at,
          ...(when === undefined || when === 'true' ? {} : { when })
        }
      ],
      verdict:
        when === undefined
          ? notHere('its condition has no counterpart; all answers are refused', 'write an expression')
          : EXACT
    }
  if (
    !['set-header', 'add-header', 'del-header'].includes(name) ||
    when === undefined ||
    template === undefined ||
    words.includes('-m')
  )
    return { actions: [], verdict: HARMLESS.includes(name) ? close('it changes no answer by itself') : NO_VALUE }
  return {
    actions: [
      {
        kind: 'response-header',
        name: field.toLowerCase(),
        value: template,
        mode: name === 'add-header' ? 'add' : 'set',
        at,
        ...(when === 'true' ? {} : { when })
      }
    ],
    verdict: EXACT
  }
}
