import { toRe2 } from '../cel.js'
import { secondsOfDuration } from '../durations.js'
import { close, EXACT, notHere, type RouteAction, type SourcePosition, type Verdict } from '../model.js'
import { escapeRegex, networkOf } from '../requests-in-cel.js'
import { type Fields, fieldsOf, numberOf, textOf, textsOf } from '../values.js'

interface Middleware {
  readonly actions: readonly RouteAction[]
  readonly verdict: Verdict
}

/** Middlewares that change no answer that a check depends on: their loss opens nothing. */
const HARMLESS: Readonly<Record<string, string>> = {
  buffering: 'Sluice does not buffer bodies',
  contenttype: 'Sluice does not guess types',
  errors: 'write error_pages of the site',
  circuitbreaker: 'write circuit_breaker of the site',
  inflightreq: 'write max_connections of the backend',
  grpcweb: 'it is not converted',
  passtlsclientcert: 'write add-headers with conn.tls'
}

const closed = (at: SourcePosition, reason: string, instead: string): Middleware => ({
  actions: [{ kind: 'respond', status: 503, at }],
  verdict: notHere(`${reason}; routes with it answer 503`, instead)
})

/** Actions of a middleware, whose `options` have lower-case names. What decides who may pass and cannot be converted answers 503. */
export function readMiddleware(kind: string, options: Fields, at: SourcePosition): Middleware {
  switch (kind) {
    case 'stripprefix': {
      const prefixes = textsOf(options.prefixes).map((prefix) => escapeRegex(prefix.replace(/\/$/, '')))
      return {
        actions: [{ kind: 'rewrite', pattern: `^(?:${prefixes.join('|')})/?`, to: '/', at }],
        verdict: close('X-Forwarded-Prefix is not sent')
      }
    }
    case 'addprefix':
      return {
        actions: [{ kind: 'rewrite', pattern: '^', to: (textOf(options.prefix) ?? '').replace(/\/$/, ''), at }],
        verdict: EXACT
      }
    case 'replacepath':
      return {
        actions: [{ kind: 'rewrite', pattern: '^[^?]*', to: textOf(options.path) ?? '/', at }],
        verdict: close('X-Replaced-Path is not sent')
      }
    case 'stripprefixregex':
    case 'replacepathregex': {
      const pattern = toRe2(textOf(options.regex) ?? textsOf(options.regex)[0] ?? '')
      const to = kind === 'stripprefixregex' ? '' : (textOf(options.replacement) ?? '')
      if (pattern === undefined || to.includes('${'))
        return closed(at, 'its expression has no form in RE2', 'write url-rewrite')
      return {
        actions: [{ kind: 'rewrite', pattern, to, at }],
        verdict: close('the expression is matched with path and query')
      }
    }
    case 'headers':
      return readHeaders(options, at)
    case 'redirectscheme': {
      const scheme = textOf(options.scheme) === 'http' ? 'http' : 'https'
      const port = textOf(options.port)
      const to = `${scheme}://\${req.url.host}${port === undefined || port === '443' || port === '80' ? '' : `:${port}`}\${req.url.uri}`
      return {
        actions: [
          {
            kind: 'redirect',
            status: options.permanent === true || options.permanent === 'true' ? 301 : 302,
            to,
            when: `req.url.scheme != '${scheme}'`,
            at
          }
        ],
        verdict: close('methods other than GET get the same status')
      }
    }
    case 'redirectregex': {
      const pattern = toRe2(textOf(options.regex) ?? '')
      const to = (textOf(options.replacement) ?? '').replace(/\$\{(\d+)\}/g, '$$$1')
      if (pattern === undefined || to.includes('${'))
        return closed(at, 'its expression has no form in RE2', 'write redirect')
      const permanent = options.permanent === true || options.permanent === 'true'
      return {
        actions: [{ kind: 'redirect', status: permanent ? 301 : 302, to, pattern, at }],
        verdict: close('the expression is matched with path and query, without scheme and host')
      }
    }
    case 'basicauth':
      return readBasicAuth(options, at)
    case 'ratelimit':
      return readRateLimit(options, at)
    case 'ipallowlist':
    case 'ipwhitelist': {
      const networks = textsOf(options.sourcerange)
      const strategy = options.ipstrategy
      if (networks.length === 0 || networks.some((network) => networkOf(network) === undefined))
        return closed(at, 'its networks are not known', 'write restrict-ips')
      return {
        actions: [{ kind: 'addresses', allow: networks, deny: [], at }],
        verdict: strategy === undefined ? EXACT : close('trusted_proxies says whose X-Forwarded-For counts')
      }
    }
    case 'compress':
      return {
        actions: [{ kind: 'compress', algorithms: [], at }],
        verdict: close('br, zstd and gzip are offered for all compressible types, and not on requests with cookies')
      }
    case 'retry':
      return { actions: [], verdict: close('write retries of the backend') }
    default:
      return HARMLESS[kind] === undefined
        ? closed(
            at,
            'it decides or changes what Sluice has no counterpart for',
            'write an action of a policy (docs/reference/actions.md)'
          )
        : { actions: [], verdict: close(HARMLESS[kind]) }
  }
}

const SECURITY: Readonly<Record<string, (value: unknown) => readonly [string, string] | undefined>> = {
  framedeny: (value) => (value === true || value === 'true' ? ['x-frame-options', 'DENY'] : undefined),
  customframeoptionsvalue: (value) => ['x-frame-options', String(value)],
  contenttypenosniff: (value) =>
    value === true || value === 'true' ? ['x-content-type-options', 'nosniff'] : undefined,
  browserxssfilter: (value) => (value === true || value === 'true' ? ['x-xss-protection', '1; mode=block'] : undefined),
  contentsecuritypolicy: (value) => ['content-security-policy', String(value)],
  referrerpolicy: (value) => ['referrer-policy', String(value)],
  permissionspolicy: (value) => ['permissions-policy', String(value)]
}

function readHeaders(options: Fields, at: SourcePosition): Middleware {
  const actions: RouteAction[] = []
  const others: string[] = []
  let hsts = ''
  for (const [key, value] of Object.entries(options)) {
    const name = key.toLowerCase()
    if (name === 'customrequestheaders') {
      for (const [field, text] of Object.entries(fieldsOf(value)))
        if (field.toLowerCase() !== 'host')
          actions.push({
            kind: 'request-header',
            name: field.toLowerCase(),
            value: String(text).replaceAll('${', "${'${'}"),
            at
          })
        else others.push('Host of the request')
    } else if (name === 'customresponseheaders') {
      for (const [field, text] of Object.entries(fieldsOf(value)))
        actions.push({
          kind: 'response-header',
          name: field.toLowerCase(),
          value: String(text).replaceAll('${', "${'${'}"),
          mode: 'set',
          at
        })
    } else if (name === 'stsseconds') hsts = `max-age=${String(value)}${hsts}`
    else if (name === 'stsincludesubdomains' && String(value) === 'true') hsts += '; includeSubDomains'
    else if (name === 'stspreload' && String(value) === 'true') hsts += '; preload'
    else {
      const field = SECURITY[name]?.(value)
      if (field !== undefined)
        actions.push({
          kind: 'response-header',
          name: field[0],
          value: field[1].replaceAll('${', "${'${'}"),
          mode: 'set',
          at
        })
      else if (SECURITY[name] === undefined) others.push(key)
    }
  }
  if (hsts.startsWith('max-age'))
    actions.push({
      kind: 'response-header',
      name: 'strict-transport-security',
      value: hsts,
      mode: 'set',
      when: "req.url.scheme == 'https'",
      at
    })
  return {
    actions,
    verdict:
      others.length === 0 ? EXACT : notHere(`${others.join(', ')} is not converted`, 'write add-headers, or cors')
  }
}

function readBasicAuth(options: Fields, at: SourcePosition): Middleware {
  const realm = textOf(options.realm) ?? 'traefik'
  const file = textOf(options.usersfile)
  // Labels of compose files write `$$` for a dollar.
  const users = textsOf(options.users).map((user) => user.replaceAll('$$', '$').split(/:(.*)/s))
  const credentials = users.map(([username = '', passwordHash = '']) => ({ username, passwordHash }))
  const known = credentials.every(({ passwordHash }) => /^\$(?:2[aby]|apr1)\$/.test(passwordHash))
  if ((credentials.length === 0 && file === undefined) || !known)
    return closed(at, 'its users are not known, or have other hashes than bcrypt and apr1', 'write basic-auth')
  const verdict = file === undefined ? EXACT : close('the folder of the file stands in the option jwt.key_folders')
  return {
    actions: [
      {
        kind: 'basic-auth',
        realm,
        ...(file === undefined ? {} : { file }),
        ...(credentials.length === 0 ? {} : { credentials }),
        at
      }
    ],
    verdict
  }
}

/** A rate in a period is the same rate in a window of a minute or more. */
function readRateLimit(options: Fields, at: SourcePosition): Middleware {
  const average = numberOf(options.average)
  const period = secondsOfDuration(textOf(options.period) ?? '1s', 's')
  const criterion = options.sourcecriterion
  if (average === undefined || average <= 0 || period === undefined || period <= 0 || criterion !== undefined)
    return closed(at, 'its rate or its key is not known', 'write rate-limit')
  const window = Math.min(86_400, Math.max(60, Math.ceil(period / 10) * 10))
  const capacity = Math.max(1, Math.round((average * window) / period)) + (numberOf(options.burst) ?? 1)
  return {
    actions: [{ kind: 'rate-limit', name: 'traefik', capacity, window, key: 'conn.client_ip', at }],
    verdict: close(
      `${capacity} requests in any ${window} seconds are counted exactly for each address, without a bucket of tokens`
    )
  }
}
