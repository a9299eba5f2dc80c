import { isIP } from 'node:net'
import { ANY_HOST, hostPatterns, shownHost, whyUncertifiable } from '../../../lib/host.js'
import { readAuthorities } from '../../../lib/x509.js'
import { dataOf, type MapEntry } from '../../../policy/tree.js'
import { tlsCertificate } from '../../../resources/certificates.js'
import type { ListenerUnit } from '../../../runtime/plan.js'
import { fieldErrors } from '../../../schema/errors.js'
import type { Declaration } from './declaration.js'
import type { At, CertificateHost } from './declared-part.js'
import { ACME, EXTERNAL_ACCOUNT, KEY_TYPES } from './fields.js'
import { siteErrors } from './site-codes.js'
import { isServed } from './site-listeners.js'
import type { FileLine } from './site-text.js'
import type { Values } from './values.js'

type KeyType = (typeof KEY_TYPES)[number]
const NOT_AGREED =
  'certificates are requested only by those who agree to the terms of service of the authority: write agree_to_terms: true'

/** The authority of a site file. Missing members have the values of the process's options. */
export interface DeclaredAuthority {
  readonly directory?: string
  readonly email?: string
  /** PEM of the authorities that its API is checked against. */
  readonly ca?: string
  readonly externalAccount?: { readonly kid: string; readonly hmacKey: string }
}

/** A host with a managed certificate, and the line of its site. */
export interface ManagedHost extends FileLine {
  readonly host: string
}

/** Managed certificates of a site file. */
export interface DeclaredCertificates {
  /** Authority. @default as in the options of the process */
  readonly authority?: DeclaredAuthority
  /** Line of `acme`. */
  readonly line?: FileLine
  readonly keyType: KeyType
  /** Hosts with a managed certificate, in the order of the file. */
  readonly hosts: readonly ManagedHost[]
}

/** `acme` as it was read. */
export interface ReadAcme {
  readonly authority: DeclaredAuthority
  readonly keyType: KeyType
  readonly line: FileLine
}

/** Reads `acme`; undefined after a report. */
export async function readAcme(
  declaration: Declaration,
  values: Values,
  { key, keySpan, value }: MapEntry
): Promise<ReadAcme | undefined> {
  const fields = declaration.fields(value, [key], ACME)
  const at = (name: string): At => ({ path: [key, name], span: fields.get(name)?.value.span ?? keySpan })
  const invalid = (name: string, message: string) =>
    declaration.error(at(name), fieldErrors.FIELD_INVALID, `${name} ${message}`)
  const agreed = fields.get('agree_to_terms')
  if (value.kind === 'map' && (agreed === undefined || dataOf(agreed.value) !== true)) {
    declaration.error(at('agree_to_terms'), fieldErrors.FIELD_REQUIRED, NOT_AGREED)
  }
  const text = (name: string) => {
    const entry = fields.get(name)
    return entry && declaration.text(entry.value, [key, name], name)
  }
  const [email, directory, file] = [text('email'), text('directory'), text('ca')]
  if (email !== undefined && !/^[^\s@,]+@[^\s@,]+$/.test(email)) invalid('email', 'must be one address')
  if (directory !== undefined && !isHttpUrl(directory)) invalid('directory', 'must be an http:// or https:// URL')
  const ca = file && (await declaration.file(file, at('ca'), 'the certificate authority'))
  const authorities = ca === undefined || ca === '' ? undefined : readAuthorities(ca)
  if (authorities !== undefined && 'ok' in authorities) invalid('ca', authorities.message)
  const keyType = text('key_type') ?? 'ecdsa'
  if (!isKeyType(keyType)) invalid('key_type', `must be ${KEY_TYPES.join(' or ')}`)
  const external = fields.get('external_account')
  const externalAccount = external && (await readExternal(declaration, values, external, [key, external.key]))
  return {
    authority: {
      ...(directory === undefined ? {} : { directory }),
      ...(email === undefined ? {} : { email }),
      ...(ca === undefined ? {} : { ca }),
      ...(externalAccount === undefined ? {} : { externalAccount })
    },
    keyType: isKeyType(keyType) ? keyType : 'ecdsa',
    line: declaration.lineAt(keySpan)
  }
}

async function readExternal(
  declaration: Declaration,
  values: Values,
  { keySpan, value }: MapEntry,
  path: readonly string[]
): Promise<DeclaredAuthority['externalAccount']> {
  const fields = declaration.fields(value, path, EXTERNAL_ACCOUNT)
  const [id, secret] = [fields.get('key_id'), fields.get('key')]
  if (id === undefined || secret === undefined) {
    if (value.kind !== 'map') return undefined
    const message = 'an external account needs key_id and key, such as { key_id: abc, key: { file: secrets/acme } }'
    declaration.error({ path, span: keySpan }, fieldErrors.FIELD_REQUIRED, message)
    return undefined
  }
  const kid = declaration.text(id.value, [...path, 'key_id'], 'key_id')
  const hmacKey = await values.secret(secret.value, [...path, 'key'])
  return kid === undefined || hmacKey === undefined ? undefined : { kid, hmacKey: hmacKey.trim() }
}

const isKeyType = (text: string): text is KeyType => (KEY_TYPES as readonly string[]).includes(text)

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
}

/**
 * Returns the hosts with a managed certificate. A host that is served over TLS without any certificate is reported with its
 * position. `listeners`: listeners of the file.
 */
export async function managedHosts(
  declaration: Declaration,
  acme: ReadAcme | undefined,
  hosts: readonly CertificateHost[],
  listeners: readonly ListenerUnit[]
): Promise<ManagedHost[]> {
  const { process = { agreed: false, tls: false } } = declaration.input
  const secure = listeners.filter(({ tls }) => tls)
  const agreed = acme !== undefined || process.agreed
  if (!process.tls && secure.length === 0) return []
  const managed = new Map<string, ManagedHost>()
  const listed = listedNames(declaration)
  const { slices } = declaration
  for (const { host, port, choice, at } of hosts) {
    if (slices.due) await slices.rest()
    if (choice === 'none' || !(process.tls || isServed(port, secure))) continue
    if (choice === 'listed' && isListed(listed, host)) continue
    const never = whyNever(host, declaration.input.zone)
    if (choice === 'managed') {
      if (never !== undefined) declaration.error(at, siteErrors.CERTIFICATE_NONE, `${shownHost(host)} ${never}`)
      else if (agreed) managed.set(host, { host, ...declaration.lineAt(at.span) })
      else
        declaration.error(at, siteErrors.CERTIFICATE_NONE, `${shownHost(host)} gets no managed certificate: ${AGREE}`)
    } else if (never === undefined && agreed && !host.startsWith('*.')) {
      managed.set(host, { host, ...declaration.lineAt(at.span) })
    } else if (!host.endsWith('.internal'))
      declaration.warning(at, siteErrors.CERTIFICATE_NONE, without(host, agreed, never))
  }
  return [...managed.values()]
}

const AGREE = 'write "acme: { agree_to_terms: true }" in this file'
const OR_FILE = 'list one under "certificates", or write "certificate: none"'

function without(host: string, agreed: boolean, never: string | undefined): string {
  const what = `there is no certificate for ${shownHost(host)}, so clients get one that they do not trust`
  if (never !== undefined) return `${what}: it ${never}; ${OR_FILE}`
  if (agreed) return `${what}: a wildcard is proved by DNS; write "certificate: managed", ${OR_FILE}`
  return `${what}: for a managed one ${AGREE}, else ${OR_FILE}`
}

/** Returns the reason why no authority issues a certificate for this host; undefined if one may. */
function whyNever(host: string, zone: string): string | undefined {
  if (host === ANY_HOST) return 'stands for every host, for which there are no managed certificates'
  if (host.indexOf('*') > 0) return 'has a star behind other labels, and no certificate can'
  if (isIP(host.replace(/^\[|\]$/g, '')) !== 0) return 'is an IP address, for which there are no managed certificates'
  if (!host.replace(/^\*\./, '').includes('.')) return 'is no public name, for which there are no managed certificates'
  if (host === zone || host.endsWith(`.${zone}`)) return 'is below the zone of the service'
  return host.endsWith('.internal') ? 'is an internal name' : whyUncertifiable(host)
}

/** Names of the certificates of the file, lower-case. */
function listedNames({ records }: Declaration): ReadonlySet<string> {
  const names = new Set<string>()
  for (const { resource, record } of records) {
    if (resource !== tlsCertificate) continue
    const { dns_names } = record.body.subject_alternative_names as { readonly dns_names: readonly string[] }
    for (const name of dns_names) names.add(name.toLowerCase())
  }
  return names
}

function isListed(listed: ReadonlySet<string>, host: string): boolean {
  if (host.indexOf('*') > 0) for (const name of listed) if (hostPatterns(name).includes(host)) return true
  return listed.size > 0 && (listed.has(host) || listed.has(`*${host.slice(host.indexOf('.'))}`))
}
