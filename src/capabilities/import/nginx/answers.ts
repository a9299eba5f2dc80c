import { close, EXACT, notHere, type RouteAction } from '../model.js'
import { bytesOf, type Level, secondsOf } from './level.js'
import { UNKNOWN_VARIABLE } from './rewrites.js'
import type { Directive } from './syntax.js'
import type { Variables } from './variables.js'

/** Statuses that `add_header` and `expires` are for (ngx_http_headers_module). */
const USUAL_STATUSES = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308]

/** Fields of requests that Sluice writes by itself with the same meaning, and what the difference is if there is one. */
const OWN_FIELDS: Readonly<Record<string, string | undefined>> = {
  host: undefined,
  connection: undefined,
  upgrade: undefined,
  'x-forwarded-proto': undefined,
  'x-forwarded-host': undefined,
  'x-forwarded-port': undefined,
  'x-forwarded-for': 'addresses that the client itself claims are passed on only from peers of trusted_proxies',
  forwarded: 'Sluice writes it by itself',
  'x-request-id': 'Sluice writes its own id, and keeps that of trusted_proxies'
}
const HOSTS = ['$host', '$http_host', '$host:$server_port', '$host:$proxy_port']

/** Fields of the request to the upstream: `proxy_set_header`, whose directives an inner block replaces as a whole. */
export function requestHeaders(level: Level, variables: Variables, prefix: 'proxy' | 'grpc'): RouteAction[] {
  return level.all(`${prefix}_set_header`).flatMap((directive) => {
    const [name = '', value = ''] = directive.args
    const field = name.toLowerCase()
    if (field === 'host' && !HOSTS.includes(value) && value !== '$server_name') {
      level.judge(directive, close('the upstream gets the host that the client asked for'))
      return []
    }
    if (Object.hasOwn(OWN_FIELDS, field)) {
      const difference = OWN_FIELDS[field]
      // A map of $http_upgrade gives Connection what Sluice writes by itself.
      if (field === 'connection') variables.template(value)
      level.judge(directive, difference === undefined ? EXACT : close(difference))
      return []
    }
    const template = variables.template(value)
    level.judge(directive, template === undefined ? UNKNOWN_VARIABLE : EXACT)
    return template === undefined
      ? []
      : [{ kind: 'request-header', name: field, value: template, at: directive.at } as const]
  })
}

/** Fields of responses: `proxy_hide_header`, `expires` and `add_header`. `answersItself`: the block has a `return` with a text. */
export function responseHeaders(level: Level, variables: Variables, answersItself: boolean): RouteAction[] {
  const actions: RouteAction[] = level.all('proxy_hide_header').map((directive) => {
    level.judge(directive, EXACT)
    return {
      kind: 'response-header',
      name: (directive.args[0] ?? '').toLowerCase(),
      value: '',
      mode: 'set',
      at: directive.at
    }
  })
  const expires = level.one('expires')
  if (expires !== undefined) actions.push(...expiry(level, expires))
  for (const directive of level.all('add_header')) {
    const [name = '', value = '', always] = directive.args
    const field = name.toLowerCase()
    if (answersItself && field === 'content-type') continue
    const template = variables.template(value)
    level.judge(directive, template === undefined ? UNKNOWN_VARIABLE : EXACT)
    if (template === undefined || value === '') continue
    const statuses = always === 'always' ? {} : { statuses: USUAL_STATUSES }
    actions.push({ kind: 'response-header', name: field, value: template, mode: 'add', ...statuses, at: directive.at })
  }
  return actions
}

function expiry(level: Level, directive: Directive): RouteAction[] {
  const [first = '', second] = directive.args
  if (first === 'off') {
    level.judge(directive, EXACT)
    return []
  }
  const seconds = secondsOf(first.replace(/^[+-]/, ''))
  const value =
    first === 'epoch'
      ? 'no-cache'
      : first === 'max'
        ? 'max-age=315360000'
        : first.startsWith('-')
          ? 'no-cache'
          : `max-age=${seconds}`
  if (second !== undefined || (seconds === undefined && first !== 'max' && first !== 'epoch')) {
    level.judge(
      directive,
      notHere('the time depends on a variable or on the change of the file', 'set Cache-Control by add-headers')
    )
    return []
  }
  level.judge(directive, close('Cache-Control alone is set, without the older Expires'))
  return [
    { kind: 'response-header', name: 'cache-control', value, mode: 'set', statuses: USUAL_STATUSES, at: directive.at }
  ]
}

/** The type of a text that `return` answers with. `byName`: the extension of the path decides, where it has one. */
export function contentTypeOf(level: Level): { type: string; byName: boolean } {
  const given = level.own('add_header').find(({ args: [name] }) => name?.toLowerCase() === 'content-type')
  if (given === undefined) return { type: level.value('default_type') ?? 'text/plain', byName: !level.isWholePath }
  level.judge(given, close('the answer has one Content-Type; nginx sends a second one'))
  return { type: given.args[1] ?? 'text/plain', byName: false }
}

/** Compression, where it is on. */
export function compression(level: Level): RouteAction[] {
  const directive = level.one('gzip')
  if (directive === undefined) return []
  if (directive.args[0] !== 'on') {
    level.judge(directive, EXACT)
    return []
  }
  level.judge(
    directive,
    close('br and zstd are offered beside gzip, for all compressible types, and not on requests with cookies')
  )
  return [{ kind: 'compress', algorithms: [], at: directive.at }]
}

/** A limit of the size of bodies, where it is set. */
export function bodyLimit(level: Level): RouteAction[] {
  const directive = level.one('client_max_body_size')
  const bytes = bytesOf(directive?.args[0] ?? '')
  if (directive === undefined || bytes === undefined) return []
  if (bytes === 0) {
    level.judge(directive, EXACT)
    return []
  }
  level.judge(directive, close('bodies without a length in the head are not limited'))
  const when = `has(req.content_length) && req.content_length > ${bytes}`
  return [{ kind: 'respond', status: 413, when, at: directive.at }]
}

/** Checks of the client: `limit_req`, `allow` and `deny`, `auth_basic`. */
export function accessChecks(level: Level, variables: Variables, zones: ReadonlyMap<string, Directive>): RouteAction[] {
  return [
    ...limits(level, variables, zones),
    ...addresses(level),
    ...passwords(level, variables),
    ...otherChecks(level)
  ]
}

function limits(level: Level, variables: Variables, zones: ReadonlyMap<string, Directive>): RouteAction[] {
  return level.all('limit_req').flatMap((directive) => {
    const name = directive.args.find((arg) => arg.startsWith('zone='))?.slice(5) ?? ''
    const burst = Number(directive.args.find((arg) => arg.startsWith('burst='))?.slice(6) ?? 0)
    const zone = zones.get(name)
    const [source = ''] = zone?.args ?? []
    const key = variables.cel(source)
    const [, count, unit] = /^rate=(\d+)r\/([sm])$/.exec(zone?.args.find((arg) => arg.startsWith('rate=')) ?? '') ?? []
    if (zone === undefined || key === undefined || count === undefined) {
      level.judge(
        directive,
        notHere(`its zone "${name}" is not known, or its key has no expression`, 'write the action rate-limit')
      )
      return []
    }
    const capacity = Number(count) * (unit === 's' ? 60 : 1) + burst
    level.judge(zone, EXACT)
    const status = level.value('limit_req_status')
    if (status !== undefined) level.judge(level.one('limit_req_status') as Directive, close('refused requests get 429'))
    level.judge(
      directive,
      close(
        `${capacity} requests in any 60 seconds are counted exactly, without a leaky bucket that delays or bounds bursts; refused requests get 429. With the option limiter.short_windows: on, a rate of 1s bounds bursts too`
      )
    )
    // Requests with an empty key are not counted by nginx.
    const when =
      source.startsWith('$binary_remote_addr') || source.startsWith('$remote_addr') ? {} : { when: `${key} != ''` }
    return [{ kind: 'rate-limit', name, capacity, window: 60, key, ...when, at: directive.at } as const]
  })
}

function addresses(level: Level): RouteAction[] {
  const rules = level.all('allow', 'deny')
  const [first] = rules
  if (first === undefined) return []
  const end = rules.findIndex(({ args: [network] }) => network === 'all')
  const [before, last] = end === -1 ? [rules, undefined] : [rules.slice(0, end), rules[end]]
  if (rules.some(({ args: [network = ''] }) => network !== 'all' && !/^[\da-f.:]+(?:\/\d+)?$/i.test(network))) {
    for (const rule of rules)
      level.judge(
        rule,
        notHere('it names no network; the route answers 503 until a check is written', 'use the action restrict-ips')
      )
    return [{ kind: 'respond', status: 503, at: first.at }]
  }
  for (const rule of rules) level.judge(rule, EXACT)
  const networks = (name: string) =>
    before.filter((rule) => rule.name === name).map(({ args: [network = ''] }) => network)
  const [allow, deny] = [networks('allow'), networks('deny')]
  const refusesRest = last?.name === 'deny'
  const denyFirst = before.every(
    ({ name }, index) => name === 'deny' || before.slice(index).every((rule) => rule.name === 'allow')
  )
  if (refusesRest && allow.length === 0) return [{ kind: 'respond', status: 403, at: first.at }]
  if (!refusesRest && deny.length === 0) return []
  if (refusesRest && denyFirst) return [{ kind: 'addresses', allow, deny, at: first.at }]
  if (!refusesRest && allow.length === 0) return [{ kind: 'addresses', allow: [], deny, at: first.at }]
  const chain = before.map(
    ({ name, args: [network] }) =>
      `conn.client_ip.inCidrRange('${withLength(network as string)}') ? ${name === 'deny'} : `
  )
  return [{ kind: 'respond', status: 403, when: `${chain.join('')}${refusesRest}`, at: first.at }]
}

const withLength = (network: string) =>
  network.includes('/') ? network : `${network}/${network.includes(':') ? 128 : 32}`

function passwords(level: Level, variables: Variables): RouteAction[] {
  const directive = level.one('auth_basic')
  if (directive === undefined) return []
  const [realm = ''] = directive.args
  if (realm === 'off') {
    level.judge(directive, EXACT)
    return []
  }
  const named = level.one('auth_basic_user_file')
  const file = variables.constant(named?.args[0] ?? '')
  if (named === undefined || file === undefined || file === '') {
    level.judge(
      directive,
      notHere('the file of its users is not known; the route answers 503', 'write the action basic-auth')
    )
    return [{ kind: 'respond', status: 503, at: directive.at }]
  }
  level.judge(directive, EXACT)
  level.judge(
    named,
    close('hashes of bcrypt, apr1 and argon2id count, and the folder of the file stands in the option jwt.key_folders')
  )
  return [{ kind: 'basic-auth', realm, file, at: directive.at }]
}

/** Checks that are not converted close the route: it must not open by the conversion. */
const CLOSING = [
  'auth_request',
  'auth_jwt',
  'secure_link',
  'access_by_lua_block',
  'access_by_lua_file',
  'access_by_lua',
  'js_access',
  'modsecurity'
]

function otherChecks(level: Level): RouteAction[] {
  return CLOSING.flatMap((name) => {
    const directive = level.one(name)
    if (directive === undefined || directive.args[0] === 'off') return []
    level.judge(
      directive,
      notHere(
        'another check decides who may pass; the route answers 503 until one is written',
        'use jwt-validation, http-request with deny, or an expression'
      )
    )
    return [{ kind: 'respond', status: 503, at: directive.at } as const]
  })
}

/** Pages for errors: Sluice answers with the same status and an empty body. */
export function errorPages(level: Level): void {
  for (const directive of level.all('error_page')) {
    const isPlain = directive.args.every((arg) => !arg.startsWith('=') && !arg.startsWith('@'))
    const differs = close('the status stays, and the body is empty in place of the page')
    level.judge(
      directive,
      isPlain
        ? differs
        : notHere('another answer takes the place of an error', 'use custom-response in on_http_response')
    )
  }
}
