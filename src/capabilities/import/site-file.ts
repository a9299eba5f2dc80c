import { Document, isMap, isPair, isScalar, type Node, visit } from 'yaml'
import {
  type FileTarget,
  type HostPort,
  type ImportedConfig,
  type ImportedHost,
  type ImportedListener,
  type ImportedRoute,
  type ImportedTimeouts,
  type ImportedUpstream,
  positionText,
  type Statement
} from './model.js'
import { Ledger, verdictText, verdictWord } from './report.js'
import { planSite } from './site-plan.js'

/** A site file with the statements whose verdicts the form of the file has changed. */
export interface WrittenSite {
  readonly text: string
  readonly statements: readonly Statement[]
}

type Fields = Record<string, unknown>
type Path = readonly (string | number)[]

/** Most characters of a map or list on one line. */
const MAX_FLOW = 100
const MAX_LINE = 130

/** Changes of a site file that serves for a trial beside the old server. */
export interface Trial {
  /** The port of 127.0.0.1 that stands in for the port of a listener. */
  portOf(listener: ImportedListener): number
}

/** Writes the model as a site file; each statement that is not exact is a comment at its place. */
export function writeSiteFile(config: ImportedConfig, trial?: Trial): WrittenSite {
  return new SiteWriter(config, trial).write()
}

class SiteWriter {
  readonly #config: ImportedConfig
  readonly #trial: Trial | undefined
  readonly #places = new Map<string, Path>()
  readonly #backends: Record<string, Fields> = {}
  readonly #sites: Record<string, unknown> = {}
  readonly #authorities: Record<string, string> = {}
  readonly #uses = new Map<string, number>()
  readonly #ledger = new Ledger()
  readonly #hosts = new Set<string>()

  constructor(config: ImportedConfig, trial: Trial | undefined) {
    this.#config = config
    this.#trial = trial
    for (const { at, text, within, verdict } of config.statements) {
      this.#ledger.add(at, text, within)
      this.#ledger.judge(at, verdict)
    }
    for (const { target } of config.hosts.flatMap(({ routes }) => routes)) {
      if (target?.kind === 'upstream') this.#uses.set(target.upstream, (this.#uses.get(target.upstream) ?? 0) + 1)
    }
  }

  write(): WrittenSite {
    const { hosts, listeners } = this.#config
    for (const host of hosts) this.#site(host)
    const certificates = new Map(
      hosts.flatMap(({ certificate }) =>
        certificate === undefined ? [] : [[certificate.certificateFile, certificate]]
      )
    )
    const data: Fields = {
      listeners: withoutClashes(listeners).map((listener) => this.#listener(listener)),
      ...(certificates.size === 0
        ? {}
        : {
            certificates: [...certificates.values()].map(({ certificateFile, keyFile }) => ({
              certificate: certificateFile,
              key: keyFile
            }))
          }),
      ...(Object.keys(this.#authorities).length === 0 ? {} : { certificate_authorities: this.#authorities }),
      sites: this.#sites,
      ...this.#tcp(),
      ...(Object.keys(this.#backends).length === 0 ? {} : { backends: this.#backends })
    }
    const statements = this.#ledger.statements(() => ({ kind: 'exact' }))
    return { text: toYaml(data, this.#comments(statements)), statements }
  }

  #listener(listener: ImportedListener): unknown {
    const { address, port, tls, proxyProtocol } = listener
    if (this.#trial !== undefined) {
      // Sites with a port in their name are served where clients know that port.
      const known = Object.keys(this.#sites).some((name) => name.endsWith(`:${port}`)) ? { public_port: port } : {}
      return { listen: `127.0.0.1:${this.#trial.portOf(listener)}`, ...(tls ? { tls: true } : {}), ...known }
    }
    const place = `${address.includes(':') ? `[${address}]` : address}:${port}`
    if (proxyProtocol) return { listen: place, ...(tls ? { tls: true } : {}), proxy_protocol: 'on' }
    return `${tls ? 'https' : 'http'}://${place}`
  }

  /** Comments by the path of their node. */
  #comments(statements: readonly Statement[]): Map<string, string[]> {
    const comments = new Map<string, string[]>()
    for (const { at, within, text, verdict } of statements) {
      if (verdict.kind === 'exact') continue
      const place =
        [at, ...within]
          .map((position) => this.#places.get(positionText(position)))
          .find((path) => path !== undefined) ?? []
      const key = JSON.stringify(place)
      const lines = wrapped(`${at.file}:${at.line} ${verdictWord(verdict)}: ${text} ${verdictText(verdict)}`)
      comments.set(key, [...(comments.get(key) ?? []), ...lines])
    }
    return comments
  }

  #site(host: ImportedHost): void {
    const keys = siteKeys(host, this.#config)
    const [first, ...further] = keys
    if (first === undefined) return
    const path = ['sites', first]
    this.#places.set(positionText(host.at), path)
    const plan = planSite(host, (wanted) => this.#freeHost(wanted))
    for (const { at, verdict } of plan.verdicts) this.#ledger.judge(at, verdict)
    const routes: Record<string, unknown> = {}
    for (const { path: match, route, policy, compresses } of plan.routes) {
      this.#places.set(positionText(route.at), [...path, 'routes', match])
      const fields = {
        ...this.#target(route),
        ...(policy === undefined ? {} : { policy }),
        ...(compresses && !plan.compresses ? { compression: true } : {})
      }
      routes[match] = shortest(fields)
    }
    if (plan.rest !== undefined) routes['/'] = { policy: plan.rest }
    const [only, ...others] = plan.routes
    const alone =
      only?.path === '/' &&
      others.length === 0 &&
      typeof routes['/'] === 'object' &&
      !('files' in (routes['/'] as object))
        ? (routes['/'] as Fields)
        : undefined
    const isShort = only?.path === '/' && others.length === 0 && typeof routes['/'] === 'string'
    const target = isShort
      ? { backend: routes['/'] }
      : alone !== undefined && !('policy' in alone && plan.policy !== undefined)
        ? alone
        : { routes }
    if (!('routes' in target) && only !== undefined) this.#places.set(positionText(only.route.at), path)
    const { clientCertificates, minTlsVersion, plainHttp, certificate } = host
    const hasTls = this.#config.listeners.some(({ tls }) => tls)
    const site: Fields = {
      ...(further.length === 0 ? {} : { hosts: further }),
      ...(hasTls && plainHttp === 'serve' ? { redirect: 'off' } : {}),
      ...(hasTls && certificate === undefined && !host.ports.some(({ tls }) => tls) ? { certificate: 'none' } : {}),
      ...(clientCertificates === undefined
        ? {}
        : { mutual_tls: { certificate_authorities: [this.#authority(clientCertificates.caFile)] } }),
      ...(minTlsVersion === undefined ? {} : { tls_termination: { min_version: minTlsVersion } }),
      ...(plan.compresses ? { compression: true } : {}),
      ...(plan.policy === undefined ? {} : { policy: plan.policy }),
      ...(plan.routes.length === 0 ? {} : target)
    }
    this.#sites[first] = shortest(site)
    for (const { host: name, route, policy, compresses } of plan.internal) {
      this.#places.set(positionText(route.at), ['sites', name])
      const fields = {
        ...this.#target(route),
        ...(policy === undefined ? {} : { policy }),
        ...(compresses ? { compression: true } : {})
      }
      this.#sites[name] = 'files' in fields ? { routes: { '/': fields } } : shortest(fields)
    }
  }

  /** TCP edges; not in a trial, whose ports are others. */
  #tcp(): Fields {
    const edges: Record<string, unknown> = {}
    for (const { port, upstream: wanted, at } of this.#trial === undefined ? (this.#config.tcp ?? []) : []) {
      const upstream = this.#config.upstreams.find(({ name }) => name === wanted)
      if (upstream === undefined) continue
      const key = `0.0.0.0:${port}`
      this.#places.set(positionText(at), ['tcp', key])
      edges[key] = this.#backendName(upstream.name, backendFields(upstream, undefined))
    }
    return Object.keys(edges).length === 0 ? {} : { tcp: edges }
  }

  #freeHost(wanted: string): string {
    for (let number = 1; ; number++) {
      const name = number === 1 ? wanted : wanted.replace(/^[^.]+/, (label) => `${label}-${number}`)
      if (this.#hosts.has(name)) continue
      this.#hosts.add(name)
      return name
    }
  }

  #authority(file: string): string {
    const name = (file.split('/').at(-1) as string).replace(/\.\w+$/, '')
    this.#authorities[name] = file
    return name
  }

  #target({ target, timeouts, at }: ImportedRoute): Fields {
    if (target === undefined) return {}
    if (target.kind === 'files') return filesFields(target.files)
    const upstream = this.#config.upstreams.find(({ name }) => name === target.upstream)
    if (upstream === undefined) throw new Error(`no upstream "${target.upstream}" for the route at ${positionText(at)}`)
    const [server, ...others] = upstream.servers
    const fields = backendFields(upstream, timeouts)
    const isDeclared = this.#config.statements.some(
      ({ at: position, text }) =>
        positionText(position) === positionText(upstream.at) && /^(?:upstream|backend|listen) /.test(text)
    )
    const isPlain = Object.keys(fields).length === 1 && others.length === 0 && server?.weight === undefined
    if (isPlain && !isDeclared && this.#uses.get(upstream.name) === 1) return { backend: server?.url }
    const name = this.#backendName(upstream.name, fields)
    this.#places.set(positionText(upstream.at), this.#places.get(positionText(upstream.at)) ?? ['backends', name])
    return { backend: name }
  }

  /** A name for these fields: equal ones share it. */
  #backendName(wanted: string, fields: Fields): string {
    for (let number = 1; ; number++) {
      const name = number === 1 ? wanted : `${wanted}-${number}`
      const other = this.#backends[name]
      if (other !== undefined && JSON.stringify(other) !== JSON.stringify(fields)) continue
      this.#backends[name] = fields
      return name
    }
  }
}

/** One listener for a port where several addresses include each other: `[::]` takes IPv4, too. */
export function withoutClashes(listeners: readonly ImportedListener[]): ImportedListener[] {
  return listeners.filter(({ address, port }) => {
    const wider = address === '::' ? [] : address === '0.0.0.0' ? ['::'] : ['::', '0.0.0.0']
    return !listeners.some((other) => other.port === port && wider.includes(other.address))
  })
}

/** A site or route that says nothing but its backend needs no map. */
function shortest(fields: Fields): unknown {
  return Object.keys(fields).length === 1 && typeof fields.backend === 'string' ? fields.backend : fields
}

/** Static files, as a route of the site file has them. */
function filesFields({ folder, index, fallback, listing, cache }: FileTarget): Fields {
  return {
    files: folder,
    ...(index === undefined ? {} : { index }),
    ...(fallback === undefined ? {} : { fallback }),
    ...(listing === true ? { listing } : {}),
    ...(cache === undefined ? {} : { cache })
  }
}

function backendFields(
  { servers, balance, hashKey, stickyCookie, healthPath, tls }: ImportedUpstream,
  timeouts: ImportedTimeouts | undefined
): Fields {
  const { caFile, serverName, insecure } = tls ?? {}
  const settings = {
    ...(insecure === true ? { verify: 'off' } : {}),
    ...(caFile === undefined ? {} : { ca: caFile }),
    ...(serverName === undefined ? {} : { server_name: serverName })
  }
  const { connect, firstByte, idle } = timeouts ?? {}
  const times = {
    ...(connect === undefined ? {} : { connect }),
    ...(firstByte === undefined ? {} : { response: firstByte }),
    ...(idle === undefined ? {} : { idle })
  }
  return {
    servers: servers.map(({ url, weight, backup }) =>
      weight === undefined && backup !== true
        ? url
        : { url, ...(weight === undefined ? {} : { weight }), ...(backup === true ? { backup } : {}) }
    ),
    ...(balance === undefined ? {} : { balance }),
    ...(hashKey === undefined ? {} : { hash_key: hashKey }),
    ...(stickyCookie === undefined ? {} : { sticky: { cookie: stickyCookie } }),
    ...(healthPath === undefined ? {} : { health: { path: healthPath } }),
    ...(Object.keys(settings).length === 0 ? {} : { tls: settings }),
    ...(Object.keys(times).length === 0 ? {} : { timeouts: times })
  }
}

/** Keys below `sites`: names alone where the host is served at all ports, or at 80 and 443 without another host of the name. */
function siteKeys(host: ImportedHost, { hosts, listeners }: ImportedConfig): string[] {
  const ports = new Set(listeners.map(({ port }) => port))
  const usual = [...ports].every((port) => port === 80 || port === 443)
  return host.names.flatMap((name) => {
    const shared = hosts.some((other) => other !== host && other.names.includes(name))
    const everywhere = [...ports].every((port) => host.ports.some((one) => one.port === port))
    if (everywhere || (usual && !shared) || ports.size === 0) return [name]
    return host.ports.map(({ port }: HostPort) => (port === 443 ? name : `${name}:${port}`))
  })
}

function wrapped(text: string): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + word.length > MAX_LINE - 10) {
      lines.push(line)
      line = `  ${word}`
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line]
}

function toYaml(data: Fields, comments: ReadonlyMap<string, readonly string[]>): string {
  const document = new Document(data, { aliasDuplicateObjects: false })
  for (const [key, lines] of comments) {
    const path = JSON.parse(key) as (string | number)[]
    const text = lines.map((line) => ` ${line}`).join('\n')
    if (path.length === 0) document.commentBefore = text
    else keyNode(document, path).commentBefore = text
  }
  visit(document, {
    Collection: (_key, node, path) => {
      const depth = path.filter((one) => isPair(one)).length
      if (depth < 2 || hasComment(node) || JSON.stringify(node).length > MAX_FLOW) return undefined
      node.flow = true
      return visit.SKIP
    }
  })
  return document.toString({ lineWidth: MAX_LINE, flowCollectionPadding: true })
}

/** The key of the last pair of a path. */
function keyNode(document: Document, path: readonly (string | number)[]): Node {
  const parent = document.getIn(path.slice(0, -1), true)
  const pair = isMap(parent) ? parent.items.find(({ key }) => isScalar(key) && key.value === path.at(-1)) : undefined
  if (pair === undefined) throw new Error(`no node at ${path.join('.')}`)
  return pair.key as Node
}

function hasComment(node: unknown): boolean {
  let found = false
  visit(node as Node, {
    Node: (_key, one) => {
      if (typeof one.commentBefore === 'string') found = true
      return found ? visit.BREAK : undefined
    }
  })
  return found
}
