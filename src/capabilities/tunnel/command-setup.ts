import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { isMap, isScalar, LineCounter, type Node, parseDocument, type YAMLMap } from 'yaml'
import { startErrors } from '../../app/errors.js'
import { CodedError } from '../../lib/errors.js'
import { parseAuthority } from '../../lib/host.js'
import type { NamesOptions } from '../../lib/names/names.js'
import { fileReason } from '../../lib/system-errors.js'
import type { PolicyText } from './agent-plane.js'
import { type AgentTunnel, type EndpointOffer, rawTarget, readTarget, type ServerAddress } from './client/visitors.js'

/** Options for reaching the server; each may be missing. */
interface ServerFlags {
  readonly server?: string
  readonly token?: string
  readonly ca?: string
  readonly serverName?: string
  readonly proxy?: string
  readonly resolver?: string
}

/** Options of the command line; each may be missing. */
export interface AgentFlags extends ServerFlags {
  readonly label?: readonly string[]
  readonly https?: string | true
  readonly http?: string | true
  readonly tcp?: string | true
  readonly tls?: string | true
  readonly policy?: string
  readonly endpointPolicy?: string
  readonly forward?: string
  readonly appProtocol?: string
  readonly metadata?: string
  readonly config?: string
}

/** Settings from command line, environment and file. */
export interface AgentSetup {
  readonly server: ServerAddress
  readonly token: string
  readonly metadata: string
  readonly tunnels: readonly NamedTunnel[]
  /** DNS resolver. */
  readonly resolver: NamesOptions['resolver']
}

/** A tunnel with the name that its lines are printed under, and the policy that the agent runs for it. */
export type NamedTunnel = AgentTunnel & { readonly name: string; readonly policy?: PolicyText }

/** One tunnel as written in the file. */
interface Written {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly https?: string | true
  readonly http?: string | true
  readonly tcp?: string | true
  readonly tls?: string | true
  /** Paths of files. */
  readonly policy?: string
  readonly endpointPolicy?: string
  readonly pooled?: boolean
  readonly forward?: string
  readonly appProtocol?: string
  readonly verify?: boolean
  readonly metadata?: string
}

const PROTOS = ['https', 'http', 'tcp', 'tls'] as const
const FILE_FIELDS = ['server', 'ca', 'server_name', 'proxy', 'metadata', 'resolver', 'tunnels']
const TUNNEL_FIELDS = [
  'labels',
  ...PROTOS,
  'policy',
  'endpoint_policy',
  'pooled',
  'forward',
  'app_protocol',
  'verify',
  'metadata'
]

/** Reads the agent's settings. Fails with a CodedError `AGENT_SETUP` that has the error and its position. */
export async function readAgentSetup(
  flags: AgentFlags,
  environment: Readonly<Record<string, string | undefined>>
): Promise<AgentSetup> {
  const file = flags.config === undefined ? undefined : await readAgentFile(flags.config)
  const server = flags.server ?? file?.server
  if (server === undefined) throw wrong('--server host:port is missing')
  const address = parseAuthority(server)
  if (address?.port === undefined) throw wrong(`"${server}" is no host:port of a server`)
  const token = flags.token ?? environment.SLUICE_TOKEN ?? ''
  if (token === '') throw wrong('the token is missing: set SLUICE_TOKEN, or give --token')
  const ca = flags.ca ?? file?.ca
  const serverName = flags.serverName ?? file?.serverName
  const proxy = readProxy(flags.proxy ?? file?.proxy, environment, address)
  const resolver = flags.resolver ?? file?.resolver ?? 'own'
  if (resolver !== 'own' && resolver !== 'system') throw wrong(`resolver: "${resolver}" is neither own nor system`)
  const written = [...(file?.tunnels ?? []), ...tunnelOfFlags(flags)]
  if (written.length === 0) throw wrong('no tunnel: give --forward with --label, --https, --http, --tcp or --tls')
  return {
    server: {
      host: address.host,
      port: address.port,
      ...(ca === undefined ? {} : { ca: await readText(ca) }),
      ...(serverName === undefined ? {} : { serverName }),
      ...(proxy === undefined ? {} : { proxy })
    },
    token,
    metadata: flags.metadata ?? file?.metadata ?? '',
    resolver,
    tunnels: await Promise.all(written.map(finish))
  }
}

type Environment = Readonly<Record<string, string | undefined>>

/** The proxy that is `given`, or that of the environment: HTTPS_PROXY, else ALL_PROXY, but for hosts in NO_PROXY and this machine, as in curl and Go. */
function readProxy(
  given: string | undefined,
  environment: Environment,
  server: { readonly host: string }
): URL | undefined {
  if (given === 'off') return undefined
  const { HTTPS_PROXY, ALL_PROXY, NO_PROXY = '' } = environment
  const found = environment.https_proxy || HTTPS_PROXY || environment.all_proxy || ALL_PROXY || undefined
  const text =
    given ?? (found === undefined || isDirect(server.host, environment.no_proxy || NO_PROXY) ? undefined : found)
  if (text === undefined) return undefined
  const whole = /^[a-z0-9]+:\/\//i.test(text) ? text : `http://${text}`
  const url = URL.canParse(whole) ? new URL(whole) : undefined
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw wrong('the proxy (--proxy, HTTPS_PROXY) must be a URL that begins with http:// or https://')
}

/** `exceptions`: hosts, domains with or without a dot in front, `*`; separated by commas or spaces. */
function isDirect(host: string, exceptions: string): boolean {
  if (host === 'localhost' || host === '::1' || host.startsWith('127.')) return true
  return exceptions.split(/[\s,]+/).some((one) => {
    const name = parseAuthority(one.replace(/^\*?\./, ''))?.host
    return one === '*' || (name !== undefined && (host === name || host.endsWith(`.${name}`)))
  })
}

function tunnelOfFlags(flags: AgentFlags): Written[] {
  const { label = [], https, http, tcp, tls, policy, endpointPolicy, forward, appProtocol } = flags
  const asked = [forward, https, http, tcp, tls]
  if (label.length === 0 && asked.every((one) => one === undefined)) return []
  const labels: Record<string, string> = {}
  for (const text of label) {
    const equals = text.indexOf('=')
    if (equals < 1) throw wrong(`--label ${text}: must be key=value`)
    labels[text.slice(0, equals)] = text.slice(equals + 1)
  }
  const kinds = { ...(https && { https }), ...(http && { http }), ...(tcp && { tcp }), ...(tls && { tls }) }
  const files = { ...defined('policy', policy), ...defined('endpointPolicy', endpointPolicy) }
  const rest = { ...files, ...defined('forward', forward), ...defined('appProtocol', appProtocol) }
  return [{ name: 'tunnel', labels, ...kinds, ...rest }]
}

async function finish(written: Written): Promise<NamedTunnel> {
  const {
    name,
    labels,
    policy,
    endpointPolicy,
    pooled = false,
    forward,
    appProtocol = 'http1',
    verify = true,
    metadata = ''
  } = written
  if (forward === undefined) throw wrong(`${name}: where to forward is missing`)
  const read = readTarget(forward, verify)
  // Clients shake hands with the target itself.
  const target = read && written.tls !== undefined ? rawTarget(read) : read
  if (target === undefined) throw wrong(`${name}: cannot forward to "${forward}"`)
  if (appProtocol !== 'http1' && appProtocol !== 'http2')
    throw wrong(`${name}: app_protocol: "${appProtocol}" is neither http1 nor http2`)
  if (appProtocol === 'http2' && (written.tcp !== undefined || written.tls !== undefined))
    throw wrong(`${name}: app_protocol: http2 is not for endpoints of TCP and TLS`)
  const common = {
    name,
    target: appProtocol === 'http2' ? { ...target, http2: true } : target,
    forwardsTo: forward,
    metadata,
    ...(policy === undefined ? {} : { policy: { source: policy, text: await readText(policy) } })
  }
  const kinds = PROTOS.filter((proto) => written[proto] !== undefined)
  const labelled = Object.keys(labels).length > 0
  if (kinds.length + (labelled ? 1 : 0) !== 1)
    throw wrong(`${name}: needs either labels or one of ${PROTOS.join(', ')}`)
  const [proto] = kinds
  if (proto === undefined) {
    if (endpointPolicy !== undefined)
      throw wrong(`${name}: a policy of the server belongs to an endpoint; for labels the edge has it`)
    return { ...common, labels }
  }
  const at = written[proto]
  const endpoint: EndpointOffer = {
    proto,
    pooled,
    ...(typeof at === 'string' ? { at } : {}),
    ...(endpointPolicy === undefined ? {} : { trafficPolicy: await readText(endpointPolicy) })
  }
  return { ...common, endpoint }
}

interface AgentFile {
  readonly server?: string
  readonly ca?: string
  readonly serverName?: string
  readonly proxy?: string
  readonly metadata?: string
  readonly resolver?: string
  readonly tunnels: readonly Written[]
}

async function readAgentFile(path: string): Promise<AgentFile> {
  const text = await readText(path)
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines })
  const fail = (node: Node | null | undefined, message: string): never => {
    const { line, col } = lines.linePos(node?.range?.[0] ?? 0)
    throw wrong(`${path}:${line}:${col}: ${message}`)
  }
  const [broken] = document.errors
  if (broken !== undefined) throw wrong(`${path}: ${broken.message}`)
  const reader = new MapReader(fail)
  const root = reader.map(document.contents, FILE_FIELDS)
  const folder = dirname(path)
  const tunnels = root.get('tunnels', true) as Node | undefined
  const named = tunnels === undefined ? [] : reader.map(tunnels).items
  const ca = reader.text(root, 'ca')
  return {
    ...defined('server', reader.text(root, 'server')),
    ...defined('ca', ca === undefined ? undefined : resolve(folder, ca)),
    ...defined('serverName', reader.text(root, 'server_name')),
    ...defined('proxy', reader.text(root, 'proxy')),
    ...defined('metadata', reader.text(root, 'metadata')),
    ...defined('resolver', reader.text(root, 'resolver')),
    tunnels: named.map(({ key, value }) =>
      reader.tunnel(String(isScalar(key) ? key.value : key), value as Node, folder)
    )
  }
}

/** Reads maps with known fields, and reports errors with their positions. */
class MapReader {
  readonly #fail: (node: Node | null | undefined, message: string) => never

  constructor(fail: (node: Node | null | undefined, message: string) => never) {
    this.#fail = fail
  }

  map(node: Node | null, fields?: readonly string[]): YAMLMap {
    if (!isMap(node)) return this.#fail(node, 'must be a map')
    for (const { key } of fields === undefined ? [] : node.items) {
      const name = isScalar(key) ? String(key.value) : ''
      if (!fields?.includes(name)) this.#fail(key as Node, `"${name}" is not known; ${fields?.join(', ')} are`)
    }
    return node as YAMLMap
  }

  text(map: YAMLMap, field: string): string | undefined {
    const node = map.get(field, true)
    if (node === undefined) return undefined
    const value = isScalar(node) ? node.value : undefined
    if (typeof value !== 'string' && typeof value !== 'number') return this.#fail(node, `${field} must be a text`)
    return String(value)
  }

  tunnel(name: string, node: Node, folder: string): Written {
    const map = this.map(node, TUNNEL_FIELDS)
    const labels: Record<string, string> = {}
    const labelMap = map.get('labels', true) as Node | undefined
    if (labelMap !== undefined) {
      const read = this.map(labelMap)
      for (const { key } of read.items) {
        const label = isScalar(key) ? String(key.value) : ''
        labels[label] = this.text(read, label) ?? ''
      }
    }
    const file = (field: string) => {
      const path = this.text(map, field)
      return path === undefined ? undefined : resolve(folder, path)
    }
    return {
      name,
      labels,
      ...Object.fromEntries(PROTOS.flatMap((proto) => (map.has(proto) ? [[proto, this.#place(map, proto)]] : []))),
      ...defined('policy', file('policy')),
      ...defined('endpointPolicy', file('endpoint_policy')),
      ...defined('pooled', this.#flag(map, 'pooled')),
      ...defined('forward', this.text(map, 'forward')),
      ...defined('verify', this.#flag(map, 'verify')),
      ...defined('appProtocol', this.text(map, 'app_protocol')),
      ...defined('metadata', this.text(map, 'metadata'))
    }
  }

  #place(map: YAMLMap, field: string): string | true {
    const node = map.get(field, true)
    return isScalar(node) && node.value === true ? true : (this.text(map, field) ?? '')
  }

  #flag(map: YAMLMap, field: string): boolean | undefined {
    const node = map.get(field, true)
    if (node === undefined) return undefined
    if (!isScalar(node) || typeof node.value !== 'boolean') return this.#fail(node, `${field} must be true or false`)
    return node.value
  }
}

function defined<K extends string, V>(key: K, value: V | undefined): { readonly [P in K]?: V } {
  return (value === undefined ? {} : { [key]: value }) as { readonly [P in K]?: V }
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw wrong(`${path} cannot be read: ${fileReason(error)}`)
  }
}

function wrong(message: string): CodedError {
  return new CodedError(startErrors.AGENT_SETUP, message)
}
