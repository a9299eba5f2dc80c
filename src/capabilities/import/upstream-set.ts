import { EXACT, type ImportedUpstream, type SourcePosition } from './model.js'

/** Upstreams of a source, each with a name of its own; equal ones share it. */
export class UpstreamSet {
  readonly #byName = new Map<string, ImportedUpstream>()
  readonly #byKey = new Map<string, string>()

  /** Name of an upstream with these settings. `wanted`: the name that it gets if no other one has it; default: from its first server. */
  add(settings: Omit<ImportedUpstream, 'name' | 'at' | 'verdict'>, at: SourcePosition, wanted?: string): string {
    const key = JSON.stringify([settings, wanted])
    const known = this.#byKey.get(key)
    if (known !== undefined) return known
    const base = wanted ?? upstreamName(settings.servers[0]?.url ?? '')
    let name = base
    for (let number = 2; this.#byName.has(name); number++) name = `${base}-${number}`
    this.#byName.set(name, { ...settings, name, at, verdict: EXACT })
    this.#byKey.set(key, name)
    return name
  }

  all(): ImportedUpstream[] {
    return [...this.#byName.values()]
  }
}

/** A name for people: the first label of the host, or the port of an address. */
function upstreamName(url: string): string {
  const authority = url.replace(/^\w+:\/\//, '')
  const [, host = authority, port] = /^(.*?)(?::(\d+))?$/.exec(authority) ?? []
  const socket = host.startsWith('unix:') ? host.replace(/^.*\//, '').replace(/\.\w+$/, '') : undefined
  const plain = /^[\d.]+$|^\[|^localhost$|\$/.test(host) ? '' : (host.split('.')[0] as string)
  const label = (socket ?? plain).replace(/[^\w-]+/g, '')
  return label === '' ? `backend-${port ?? '80'}` : label
}
