import type { NodePath } from '../../../policy/problems.js'
import { dataOf, type MapEntry } from '../../../policy/tree.js'
import { PASSTHROUGH, tcpEdge } from '../../../resources/edges.js'
import { fieldErrors } from '../../../schema/errors.js'
import { backendAlone, modulesBody, policyFields, policyOf, withPort } from './carriers.js'
import { type Declaration, declaredId } from './declaration.js'
import type { At, CertificateHost } from './declared-part.js'
import { PASSED_KEYS, TCP_EDGE } from './fields.js'
import { inFileWords, RENAMED } from './form.js'
import { locator } from './locator.js'
import { lacks } from './synonyms.js'
import type { Reader } from './values.js'

/** Keys of a site that say how TLS ends. */
const ENDING: ReadonlySet<string> = new Set(['certificate', 'mutual_tls', 'tls_termination'])

/** Hosts of a site: its key and `hosts`. */
export interface SiteHosts {
  /** Hosts as host:port. */
  readonly hostports: readonly string[]
  /** Place of a host by its number; the first one is the key. */
  at(index: number): At
}

/** Reads the hosts of a site. */
export function readHosts(
  declaration: Declaration,
  { key, keySpan }: MapEntry,
  further: MapEntry | undefined
): SiteHosts {
  const path = ['sites', key]
  const items = further === undefined ? [] : declaration.items(further.value, [...path, 'hosts'], 'hosts')
  return {
    hostports: [key, ...items.map((item) => String(dataOf(item)))].map(withPort),
    at(index) {
      const item = index === 0 ? undefined : items[index - 1]
      return item === undefined ? { path, span: keySpan } : { path: [...path, 'hosts', index - 1], span: item.span }
    }
  }
}

/** The place of `hostports[n]` among `hosts`; undefined for another field. */
export function placeOfHost(field: string, hosts: SiteHosts): At | undefined {
  const index = /^hostports\[(\d+)\]/.exec(field)?.[1]
  return index === undefined || index === '0' ? undefined : hosts.at(Number(index))
}

/** Host and port of a hostport. */
export function splitLast(hostport: string): { readonly host: string; readonly port: number } {
  const colon = hostport.lastIndexOf(':')
  return { host: hostport.slice(0, colon), port: Number(hostport.slice(colon + 1)) }
}

/**
 * Reads a site with TLS passthrough as a TCP edge. Settings for HTTP or certificates are rejected with the reason. Its names
 * are added to `hosts`; they need no certificate.
 */
export async function readPassedSite(
  reader: Reader,
  entry: MapEntry,
  fields: ReadonlyMap<string, MapEntry>,
  hosts: CertificateHost[]
): Promise<void> {
  const { declaration } = reader
  const { key, keySpan } = entry
  const path: NodePath = ['sites', key]
  for (const [name, { keySpan: span }] of fields) {
    if (PASSED_KEYS.has(name)) continue
    const why = ENDING.has(name) ? 'the backend ends TLS with its own certificate' : 'the requests are encrypted here'
    const message = `${name} is not possible with tls: passthrough, because ${why}`
    declaration.error({ path: [...path, name], span }, fieldErrors.CONFLICTING_FIELDS, message)
  }
  const tls = fields.get('tls')
  if (tls !== undefined && dataOf(tls.value) !== PASSTHROUGH) {
    const message = 'tls must be passthrough; leave it out where TLS ends here'
    declaration.error({ path: [...path, 'tls'], span: tls.value.span }, fieldErrors.FIELD_INVALID, message)
  }
  if (!fields.has('backend')) {
    const message = 'a site with tls: passthrough needs a backend'
    declaration.error({ path, span: keySpan }, fieldErrors.FIELD_REQUIRED, message)
  }
  const named = readHosts(declaration, entry, fields.get('hosts'))
  const made = await addEdge(reader, entry, fields, path, {
    label: `site ${key}`,
    body: { hostports: named.hostports, tls: PASSTHROUGH },
    word: 'host',
    locate: (field) => placeOfHost(field, named)
  })
  for (const [index, hostport] of made.entries())
    hosts.push({ ...splitLast(hostport), choice: 'none', at: named.at(index) })
}

/** Reads `tcp`: entries for TCP traffic by their address. */
export async function readTcp(reader: Reader, { key, value }: MapEntry): Promise<void> {
  const { declaration } = reader
  for (const entry of declaration.entries(value, [key], key)) {
    const path = [key, entry.key]
    const fields = backendAlone(entry) ?? declaration.fields(entry.value, path, TCP_EDGE)
    if (!fields.has('backend') && lacks(entry.value, TCP_EDGE)) {
      declaration.error({ path, span: entry.keySpan }, fieldErrors.FIELD_REQUIRED, 'a TCP edge needs a backend')
    }
    const body = { hostports: [entry.key] }
    await addEdge(reader, entry, fields, path, { label: `TCP edge ${entry.key}`, body, word: 'address' })
  }
}

interface EdgeParts {
  readonly label: string
  /** Body to which modules and policy are added. */
  readonly body: Readonly<Record<string, unknown>>
  /** Word for its key. */
  readonly word: 'host' | 'address'
  /** Place of a field that is not at its own key. */
  readonly locate?: (field: string) => At | undefined
}

/** Adds a TCP edge with its modules and its policy; returns its normalized hostports, none after a report. */
async function addEdge(
  reader: Reader,
  entry: MapEntry,
  fields: ReadonlyMap<string, MapEntry>,
  path: NodePath,
  { label, body, word, locate }: EdgeParts
): Promise<readonly string[]> {
  const { declaration } = reader
  const { key, keySpan, value } = entry
  const id = declaredId(tcpEdge, [key])
  const modules = await modulesBody(reader, TCP_EDGE, fields, path)
  const policy = await policyOf(declaration, fields, path, { layer: 'tcp', isStrict: false }, { id, place: entry })
  const inside = locator(value, path, keySpan, RENAMED)
  const added = await declaration.add(tcpEdge, {
    label,
    name: [key],
    body: { ...modules, ...body, ...policyFields(policy) },
    at: { path, span: keySpan },
    locate: (field) => locate?.(field) ?? inside(field),
    word: (message) => inFileWords(message).replace(/^hostports /, `the ${word} "${key}" `)
  })
  return (added?.body.hostports ?? []) as readonly string[]
}
