import type { PathForm } from '../flow/target.js'
import { formatAuthority } from '../lib/host.js'
import type { AddressUpstream, HostPort, Hsts, ListenerUnit, OnHttp, Unit, UpstreamUnit } from '../runtime/plan.js'

/** A further place where traffic is accepted. */
export interface FileListener {
  readonly listen: { readonly host: string; readonly port: number }
  readonly tls: boolean
  readonly public_port: number | undefined
  readonly proxy_protocol: boolean
  readonly path_form?: PathForm
}

/** Traffic configuration of the options, with the contents of the named files. */
export interface FileConfiguration {
  /** Listening address; undefined if a site file sets it. */
  readonly listen: HostPort | undefined
  readonly listeners: readonly FileListener[]
  /** The form of paths where neither listener nor edge says another. */
  readonly path_form: PathForm
  /** Response of HTTPS edges without their own setting to clients without TLS. */
  readonly edges_on_http: OnHttp
  /** HSTS of edges without their own setting; undefined for none. */
  readonly hsts: Hsts | undefined
  readonly upstream: Pick<AddressUpstream, 'protocol' | 'host' | 'port' | 'socket' | 'pathPrefix'> | undefined
  /** Absolute path of a folder that is served in place of an upstream. */
  readonly files?: string | undefined
  /** PEM text. */
  readonly certificateAuthorities: string | undefined
  readonly policy: { readonly source: string; readonly text: string } | undefined
}

/** Owner of the policy that the options name: part of the identity of its counters. */
const DEFAULT_ENTRY = 'default'

/** Key of the unit of the listener that is always there. */
export const DEFAULT_LISTENER = `listener:${DEFAULT_ENTRY}`

/** The units that belong to the process itself: its listeners and the entry that takes every host no other edge claims. */
export function fileUnits(configuration: FileConfiguration): ReadonlyMap<string, Unit> {
  const { listen, listeners, path_form, edges_on_http, hsts, policy } = configuration
  const units = new Map<string, Unit>()
  if (listen !== undefined) {
    const { host, port } = listen
    const unit = { kind: 'listener', name: DEFAULT_ENTRY, tls: false, proxyProtocol: false } as const
    units.set(DEFAULT_LISTENER, { ...unit, ...formOf(path_form), host, port })
  }
  for (const listener of listeners) {
    const unit = listenerUnit(listener, path_form, units)
    units.set(`listener:${unit.name}`, unit)
  }
  if (edges_on_http !== 'serve' || hsts !== undefined) {
    units.set('https:default', { kind: 'https', onHttp: edges_on_http, ...(hsts === undefined ? {} : { hsts }) })
  }
  const upstream = defaultUpstream(configuration)
  if (upstream === undefined) return units
  units.set('upstream:default', upstream)
  if (policy !== undefined) units.set('policy:default', { kind: 'policy', owner: DEFAULT_ENTRY, ...policy })
  units.set('edge:default', {
    kind: 'edge',
    id: DEFAULT_ENTRY,
    hosts: 'every',
    ...(policy === undefined ? {} : { connectPolicy: 'policy:default' })
  })
  units.set('route:default', {
    kind: 'route',
    id: DEFAULT_ENTRY,
    edge: DEFAULT_ENTRY,
    match: 'prefix',
    path: '/',
    upstream: 'upstream:default',
    modules: policy === undefined ? {} : { traffic_policy: { policy: 'policy:default' } }
  })
  return units
}

function defaultUpstream({ upstream, files, certificateAuthorities }: FileConfiguration): UpstreamUnit | undefined {
  if (files !== undefined) return { kind: 'upstream', form: 'files', folder: files, index: ['index.html'] }
  if (upstream === undefined) return undefined
  const trusted = certificateAuthorities === undefined ? {} : { certificateAuthorities }
  return { kind: 'upstream', form: 'address', ...upstream, ...trusted }
}

/** Creates the unit of a listener, named by its address, so that its position in the list is irrelevant; several free ports are numbered. */
export function listenerUnit(
  { listen, tls, public_port, proxy_protocol, path_form }: FileListener,
  usual: PathForm,
  units: ReadonlyMap<string, Unit>
): ListenerUnit {
  const address = formatAuthority(listen.host, listen.port)
  let name = address
  for (let n = 2; units.has(`listener:${name}`); n++) name = `${address}#${n}`
  return {
    kind: 'listener',
    name,
    ...listen,
    tls,
    proxyProtocol: proxy_protocol,
    ...formOf(path_form ?? usual),
    ...(public_port === undefined ? {} : { publicPort: public_port })
  }
}

const formOf = (pathForm: PathForm) => (pathForm === 'strict' ? {} : { pathForm })
