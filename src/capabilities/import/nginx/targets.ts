import {
  close,
  EXACT,
  type FileTarget,
  type ImportedTimeouts,
  type ImportedUpstream,
  notHere,
  type RouteAction,
  type RouteTarget
} from '../model.js'
import { escapeRegex } from '../requests-in-cel.js'
import { type Level, secondsOf } from './level.js'
import { templateWithGroups, UNKNOWN_VARIABLE, urlPattern } from './rewrites.js'
import type { Directive } from './syntax.js'
import type { Variables } from './variables.js'

/** Data that is read once for all servers. */
export interface Reading {
  readonly variables: Variables
  /** `limit_req_zone` by name. */
  readonly zones: ReadonlyMap<string, Directive>
  readonly upstreams: Upstreams
  /** Locations by the name behind `@`. */
  readonly named: ReadonlyMap<string, Directive>
}

/** Upstreams of the source, and those that `proxy_pass` names by an address. */
export class Upstreams {
  readonly #byName = new Map<string, ImportedUpstream>()
  readonly #byKey = new Map<string, string>()

  add(upstream: ImportedUpstream): void {
    this.#byName.set(upstream.name, upstream)
  }

  all(): ImportedUpstream[] {
    return [...this.#byName.values()]
  }

  /** The name of an upstream for `scheme://authority`: a declared one with this scheme, or a new one. */
  named(scheme: string, authority: string, at: Directive['at'], tls: ImportedUpstream['tls']): string {
    const declared = this.#byName.get(authority)
    const key = JSON.stringify([scheme, authority, tls])
    const known = this.#byKey.get(key)
    if (known !== undefined) return known
    const usual = declared !== undefined && (scheme === 'http' || declared.servers.length === 0)
    const name = usual ? authority : this.#free(declared === undefined ? nameOf(authority) : `${authority}-${scheme}`)
    if (!usual) {
      const servers = declared?.servers.map((server) => ({
        ...server,
        url: server.url.replace(/^http:/, `${scheme}:`)
      })) ?? [{ url: `${scheme}://${withPort(authority, scheme)}` }]
      this.add({ ...declared, name, servers, ...(tls === undefined ? {} : { tls }), at, verdict: EXACT })
    }
    this.#byKey.set(key, name)
    return name
  }

  #free(name: string): string {
    for (let number = 1; ; number++) {
      const candidate = number === 1 ? name : `${name}-${number}`
      if (!this.#byName.has(candidate)) return candidate
    }
  }
}

/** A name for people: the first label of a host, or the port of an address. */
function nameOf(authority: string): string {
  const [, host = authority, port] = /^(.*?)(?::(\d+))?$/.exec(authority) ?? []
  if (host.startsWith('unix:'))
    return host
      .replace(/^.*\//, '')
      .replace(/\.\w+$/, '')
      .replace(/\W+/g, '-')
  const label = /^[\d.]+$|^\[|^localhost$/.test(host) ? '' : (host.split('.')[0] as string).replace(/[^\w-]+/g, '')
  return label === '' ? `backend-${port ?? '80'}` : label
}

/** Site files want a port for other schemes than those with a usual one. */
function withPort(authority: string, scheme: string): string {
  if (authority.startsWith('unix:') || /:\d+$/.test(authority) || authority.endsWith('}')) return authority
  return `${authority}:${scheme === 'https' || scheme === 'grpcs' ? 443 : 80}`
}

const SCHEMES = ['http', 'https', 'grpc', 'grpcs']

interface Place {
  /** Path of the location. */
  readonly path: string
  readonly isRegex: boolean
}

export interface ReadTarget {
  readonly target?: RouteTarget
  readonly actions: readonly RouteAction[]
  readonly timeouts?: ImportedTimeouts
}

const OTHER_PROTOCOLS = [
  'fastcgi_pass',
  'uwsgi_pass',
  'scgi_pass',
  'memcached_pass',
  'stub_status',
  'perl',
  'js_content',
  'content_by_lua_block',
  'content_by_lua_file',
  'limit_except',
  'proxy_method',
  'empty_gif',
  'flv',
  'mp4',
  'dav_methods'
]

/** Target of a location. */
export function readTarget(level: Level, variables: Variables, reading: Reading, place: Place): ReadTarget {
  const other = level.directives.find(({ name }) => OTHER_PROTOCOLS.includes(name))
  // It must not become what another location does, such as static files that show the source of programs.
  if (other !== undefined) return { actions: [{ kind: 'respond', status: 503, at: other.at }] }
  const pass = level.directives.findLast(({ name }) => name === 'proxy_pass' || name === 'grpc_pass')
  if (pass !== undefined) return proxied(level, variables, reading, { ...place, pass })
  return files(level, variables, reading, place)
}

function proxied(
  level: Level,
  variables: Variables,
  reading: Reading,
  { pass, path, isRegex }: Place & { readonly pass: Directive }
): ReadTarget {
  const [written = ''] = pass.args
  const refuse = (verdict: typeof UNKNOWN_VARIABLE): ReadTarget => {
    level.judge(pass, verdict)
    return { actions: [{ kind: 'respond', status: 503, at: pass.at }] }
  }
  const [, before = '', rest = ''] =
    /^([^/]+):\/\/(.*)$/s.exec(written.includes('://') ? written : `grpc://${written}`) ?? []
  const scheme = variables.constant(before) ?? ''
  if (!SCHEMES.includes(scheme)) return refuse(UNKNOWN_VARIABLE)
  const [, place = '', uri] =
    /^(unix:[^:]+(?=:|$)|[^/?]*?(?=\/|\?|$|\$request_uri|\$uri))(?::(?=\/|$))?(.*)$/s.exec(rest) ?? []
  const authority = variables.constant(place)
  if (authority === undefined || authority === '') return refuse(UNKNOWN_VARIABLE)
  const tls = scheme === 'https' || scheme === 'grpcs' ? upstreamTls(level) : undefined
  const upstream = reading.upstreams.named(scheme, authority, pass.at, tls)
  const actions = pathActions(uri ?? '', { written, path, isRegex, variables, at: pass.at, level })
  if (actions === undefined) return refuse(UNKNOWN_VARIABLE)
  const host = level
    .all('proxy_set_header')
    .some(({ args: [name = '', value = ''] }) => name.toLowerCase() === 'host' && value.startsWith('$h'))
  level.judge(
    pass,
    host || scheme.startsWith('grpc')
      ? EXACT
      : close('the upstream gets the host that the client asked for, not its own name')
  )
  const timeouts = timeoutsOf(level)
  return { target: { kind: 'upstream', upstream }, actions, ...(timeouts === undefined ? {} : { timeouts }) }
}

/** Changes of the path by the URI of `proxy_pass`; undefined if it uses unknown variables. */
function pathActions(
  uri: string,
  {
    path,
    isRegex,
    variables,
    at,
    written,
    level
  }: {
    readonly written: string
    readonly path: string
    readonly isRegex: boolean
    readonly variables: Variables
    readonly at: Directive['at']
    readonly level: Level
  }
): RouteAction[] | undefined {
  if (uri === '' || uri === '$request_uri' || uri === '$uri$is_args$args' || uri === '$uri') return []
  // A rewrite with "break" has made the path that is sent.
  if (level.own('rewrite').length > 0) return []
  if (/\$/.test(written) || isRegex) {
    const location = level.locationPattern
    const to = templateWithGroups(uri.replace(/\$is_args\$args$/, ''), variables)
    if (to === undefined) return undefined
    return [{ kind: 'rewrite', ...urlPattern(location ?? '^/.*$', to, uri.includes('?') ? 'drop' : 'keep'), at }]
  }
  if (uri === path) return []
  return [{ kind: 'rewrite', pattern: `^${path.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')}`, to: uri, at }]
}

function upstreamTls(level: Level): ImportedUpstream['tls'] {
  for (const name of ['proxy_ssl_verify', 'proxy_ssl_trusted_certificate', 'proxy_ssl_name']) {
    const directive = level.one(name)
    if (directive !== undefined) level.judge(directive, EXACT)
  }
  const [caFile, serverName] = [level.value('proxy_ssl_trusted_certificate'), level.value('proxy_ssl_name')]
  return {
    ...(level.isOn('proxy_ssl_verify') ? {} : { insecure: true }),
    ...(caFile === undefined || !level.isOn('proxy_ssl_verify') ? {} : { caFile }),
    ...(serverName === undefined || serverName.includes('$') ? {} : { serverName })
  }
}

function timeoutsOf(level: Level): ImportedTimeouts | undefined {
  const of = (name: string) => {
    const directive = level.one(name)
    const seconds = directive === undefined ? undefined : secondsOf(directive.args.join(' '))
    if (directive !== undefined)
      level.judge(directive, seconds === undefined ? notHere('it is no time', 'write timeouts of the backend') : EXACT)
    return seconds
  }
  const connect = of('proxy_connect_timeout') ?? of('grpc_connect_timeout')
  const read = of('proxy_read_timeout') ?? of('grpc_read_timeout')
  for (const name of ['proxy_send_timeout', 'grpc_send_timeout']) {
    const send = level.one(name)
    if (send !== undefined) level.judge(send, close('the idle time of the backend counts for both directions'))
  }
  if (connect === undefined && read === undefined) return undefined
  return {
    ...(connect === undefined ? {} : { connect }),
    ...(read === undefined ? {} : { firstByte: read, idle: read })
  }
}

/** `root`, `alias`, `index`, `try_files` and `autoindex`. */
function files(level: Level, variables: Variables, reading: Reading, { path, isRegex }: Place): ReadTarget {
  const alias = level.own('alias').at(-1)
  const root = alias ?? level.one('root')
  const tries = level.one('try_files')
  const last = tries?.args.at(-1) ?? ''
  if (tries !== undefined && last.startsWith('@')) {
    const block = reading.named.get(last)
    const inner = level.inner({ directives: block?.block ?? [], at: block?.at ?? level.at })
    const own = block === undefined ? undefined : readTarget(inner, variables, reading, { path: '/', isRegex: false })
    const passesOnly = tries.args.length === 2 && tries.args[0] === '/dev/null'
    const reason = 'files are not looked for before a backend is used'
    level.judge(
      tries,
      passesOnly
        ? EXACT
        : notHere(
            reason,
            'give the folders of static files routes of their own; the backend gets all requests until then'
          )
    )
    return own ?? { actions: [{ kind: 'respond', status: 503, at: tries.at }] }
  }
  const folder = variables.constant(root?.args[0] ?? '')
  if (root === undefined || folder === undefined) {
    if (root !== undefined) level.judge(root, UNKNOWN_VARIABLE)
    return { actions: [{ kind: 'respond', status: root === undefined ? 404 : 503, at: root?.at ?? level.at }] }
  }
  level.judge(
    root,
    alias === undefined || !isRegex
      ? EXACT
      : notHere('an alias with groups chooses the file', 'write routes with "files"')
  )
  const fallback = fallbackOf(level, tries)
  const index = level.one('index')
  if (index !== undefined) level.judge(index, EXACT)
  const listing = level.one('autoindex')
  if (listing !== undefined) level.judge(listing, close('the list of a folder looks different'))
  const target: FileTarget = {
    folder,
    ...(index === undefined ? {} : { index: index.args }),
    ...(fallback === undefined ? {} : { fallback }),
    ...(level.isOn('autoindex') ? { listing: true } : {})
  }
  const prefix = alias === undefined || isRegex ? '' : path.replace(/\/$/, '')
  const pattern = `^${escapeRegex(prefix)}/?`
  return {
    target: { kind: 'files', files: target },
    actions: prefix === '' ? [] : [{ kind: 'rewrite', pattern, to: '/', at: root.at }]
  }
}

function fallbackOf(level: Level, tries: Directive | undefined): string | undefined {
  if (tries === undefined) return undefined
  const [last = '', ...before] = [...tries.args].reverse()
  const usual = before.every((word) => /^\$uri(\/|\.html|\/index\.html)?$/.test(word))
  const fallback = last.replace(/\$is_args\$args$|\?\$(?:args|query_string)$|\?.*$/, '')
  if (usual && last.startsWith('=')) {
    level.judge(tries, last === '=404' ? EXACT : close(`files that do not exist get 404, not ${last.slice(1)}`))
    return undefined
  }
  if (!usual || fallback.includes('$') || fallback.endsWith('.php')) {
    level.judge(
      tries,
      notHere('it tries other names, or ends in a program', 'write routes with "files" and "fallback"')
    )
    return undefined
  }
  level.judge(tries, EXACT)
  return fallback
}
