import { createHash } from 'node:crypto'
import type { NodePath } from '../../../policy/problems.js'
import { dataOf, type MapEntry, type TreeNode } from '../../../policy/tree.js'
import { certificateAuthority, tlsCertificate } from '../../../resources/certificates.js'
import { ipPolicy, ipPolicyRule, ipRestriction } from '../../../resources/ip-policies.js'
import { vault, vaultSecret } from '../../../resources/vaults.js'
import { fieldErrors } from '../../../schema/errors.js'
import { type Declaration, declaredId } from './declaration.js'
import type { At } from './declared-part.js'
import { AUTHORITY, CERTIFICATE, IP_POLICY, IP_RESTRICTION } from './fields.js'
import { inFileWords, RENAMED } from './form.js'
import { locator } from './locator.js'
import type { Names } from './names.js'
import { siteErrors } from './site-codes.js'
import { lacks } from './synonyms.js'
import { type Reader, Values } from './values.js'

const RULES = ['allow', 'deny'] as const

/** Reads `vaults`, and the values of their secrets by `vault/name`. */
export async function readVaults(
  declaration: Declaration,
  names: Names,
  { key, value }: MapEntry
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  const values = new Values(declaration, names, found)
  for (const entry of declaration.entries(value, [key], key)) {
    const path = [key, entry.key]
    const label = `vault ${entry.key}`
    const at = { path, span: entry.keySpan }
    await declaration.add(vault, { label, name: [entry.key], body: { name: entry.key }, at, locate: () => at })
    for (const secret of declaration.entries(entry.value, path, 'a vault')) {
      const place = { path: [...path, secret.key], span: secret.keySpan }
      const text = await values.secret(secret.value, place.path)
      if (text === undefined) continue
      found.set(`${entry.key}/${secret.key}`, text)
      const body = { name: secret.key, value: text, vault_id: declaredId(vault, [entry.key]) }
      const wanted = { label, name: [entry.key, secret.key], body, at: place, locate: () => place }
      await declaration.add(vaultSecret, wanted)
    }
  }
  return found
}

/** Reads `ip_policies`: networks that are allowed and denied, by the name of the policy. */
export async function readIpPolicies({ declaration, names, values }: Reader, { key, value }: MapEntry): Promise<void> {
  for (const entry of declaration.entries(value, [key], key)) {
    const path = [key, entry.key]
    const at = { path, span: entry.keySpan }
    const fields = declaration.fields(entry.value, path, IP_POLICY)
    const label = `IP policy ${entry.key}`
    const wanted = {
      label,
      name: [entry.key],
      body: await values.fields(fields, path, IP_POLICY.fields),
      at,
      locate: locator(entry.value, path, entry.keySpan)
    }
    const policy = await declaration.add(ipPolicy, wanted)
    names.ipPolicies.set(entry.key, policy?.id)
    if (policy === undefined) continue
    for (const action of RULES) {
      const list = fields.get(action)
      if (list === undefined) continue
      const items = declaration.items(list.value, [...path, action], action)
      for (const [index, item] of items.entries()) {
        const place = { path: [...path, action, index], span: item.span }
        const body = { cidr: dataOf(item), action, ip_policy_id: policy.id }
        const name = [entry.key, action, String(dataOf(item))]
        await declaration.add(ipPolicyRule, { label, name, body, at: place, locate: () => place })
      }
    }
  }
}

/** Reads `ip_restrictions`: which IP policies restrict a class of traffic. */
export async function readIpRestrictions({ declaration, values }: Reader, { key, value }: MapEntry): Promise<void> {
  for (const entry of declaration.entries(value, [key], key)) {
    const path = [key, entry.key]
    declaration.fields(entry.value, path, IP_RESTRICTION)
    const data = await values.of(entry.value, path, { properties: { ip_policy_ids: {} } })
    const at = { path, span: entry.keySpan }
    await declaration.add(ipRestriction, {
      label: `IP restriction ${entry.key}`,
      name: [entry.key],
      body: { ...(data as object), type: entry.key },
      at,
      locate: locator(entry.value, path, entry.keySpan, RENAMED),
      word: inFileWords
    })
  }
}

/** Reads `certificate_authorities` by name: a PEM file, or a map of the files `ca` and `crl`. */
export async function readAuthorities({ declaration, names, values }: Reader, { key, value }: MapEntry): Promise<void> {
  for (const entry of declaration.entries(value, [key], key)) {
    const at = { path: [key, entry.key], span: entry.value.span }
    names.authorities.set(entry.key, undefined)
    const given =
      entry.value.kind === 'map' ? declaration.fields(entry.value, at.path, AUTHORITY) : new Map([['ca', entry]])
    const [ca, crl] = [given.get('ca'), given.get('crl')]
    if (ca === undefined) {
      if (lacks(entry.value, AUTHORITY))
        declaration.error(
          at,
          fieldErrors.FIELD_REQUIRED,
          'a certificate authority needs ca, the file of its certificate'
        )
      continue
    }
    const pem = await declaration.fileAt(ca.value, at.path, 'a certificate authority')
    const list = crl === undefined ? '' : await declaration.fileAt(crl.value, at.path, 'a revocation list')
    if (pem === undefined || pem === '' || list === undefined) continue
    const label = `certificate authority ${entry.key}`
    const about = await values.fields(given, at.path, AUTHORITY.fields)
    const body = { ...about, ca_pem: pem, ...(list === '' ? {} : { crl_pem: list }) }
    const locate = (field: string) => (field === 'crl_pem' && crl !== undefined ? { ...at, span: crl.value.span } : at)
    const wanted = { label, name: [entry.key], body, at, locate }
    names.authorities.set(entry.key, (await declaration.add(certificateAuthority, wanted))?.id)
  }
}

/** Reads `certificates`: chains with their keys. */
export async function readCertificates(reader: Reader, { key, value }: MapEntry): Promise<void> {
  for (const [index, item] of reader.declaration.items(value, [key], key).entries()) {
    await readCertificate(reader, item, [key, index])
  }
}

/**
 * Reads a client certificate for servers, a chain with its key. Returns its id; undefined after a report. The id depends on
 * the contents of the files, so that renewed files recreate the servers that use them.
 */
export async function readClientCertificate(
  reader: Reader,
  item: TreeNode,
  path: NodePath
): Promise<string | undefined> {
  const nameOf = (file: string, chain: string) => ['client', file, createHash('sha256').update(chain).digest('hex')]
  const known = (id: string) => reader.declaration.find(tlsCertificate.name, id) !== undefined
  return await readCertificate(reader, item, path, { nameOf, known })
}

interface CertificateNaming {
  readonly nameOf: (file: string, chain: string) => readonly string[]
  /** Has a record with this id been declared? */
  readonly known: (id: string) => boolean
}

/** Reads a chain with its key: `{ certificate: FILE, key: FILE }`. */
export async function readCertificate(
  { declaration, values }: Reader,
  item: TreeNode,
  path: NodePath,
  { nameOf, known }: CertificateNaming = { nameOf: (file) => [file], known: () => false }
): Promise<string | undefined> {
  const fields = declaration.fields(item, path, CERTIFICATE)
  const [chain, key] = [fields.get('certificate'), fields.get('key')]
  if (chain === undefined || key === undefined) {
    if (!lacks(item, CERTIFICATE)) return
    const message = 'a certificate needs certificate (the file of its chain) and key (the file of its private key)'
    declaration.error({ path, span: item.span }, fieldErrors.FIELD_REQUIRED, message)
    return undefined
  }
  const at = { path: [...path, 'certificate'], span: chain.value.span }
  const keyAt = { path: [...path, 'key'], span: key.value.span }
  const file = declaration.text(chain.value, at.path, 'the file of a certificate')
  const chainPem = file && (await declaration.file(file, at, 'the certificate'))
  const keyPem = await readKey(declaration, values, key.value, keyAt)
  if (file === undefined || chainPem === undefined || keyPem === undefined) return undefined
  const [certificatePem, privateKey] = chainPem === keyPem ? splitPem(chainPem) : [chainPem, keyPem]
  const name = nameOf(file, certificatePem)
  const id = declaredId(tlsCertificate, name)
  if (known(id)) return id
  const record = await declaration.add(tlsCertificate, {
    label: `certificate ${file}`,
    name,
    body: {
      ...(await values.fields(fields, path, CERTIFICATE.fields)),
      certificate_pem: certificatePem,
      private_key_pem: privateKey
    },
    at,
    locate: (field) => (field.startsWith('private_key') ? keyAt : at),
    word: (message) =>
      message.replace(/^certificate_pem /, 'the certificate: ').replace(/^private_key_pem /, 'the key: ')
  })
  if (record !== undefined) judgeTime(declaration, record.body, at)
  return record?.id
}

/** Returns the certificates and the private key of a file that holds both, as HAProxy has them; for other files both texts are the file. */
function splitPem(text: string): readonly [chain: string, key: string] {
  const chain: string[] = []
  const key: string[] = []
  let block = chain
  for (const line of text.split('\n')) {
    if (line.startsWith('-----BEGIN ')) block = /PRIVATE KEY|EC PARAMETERS/.test(line) ? key : chain
    block.push(line)
  }
  const isBoth = key.length > 0 && chain.some((line) => line.startsWith('-----BEGIN '))
  return isBoth ? [`${chain.join('\n')}\n`, `${key.join('\n')}\n`] : [text, text]
}

async function readKey(declaration: Declaration, values: Values, node: TreeNode, at: At): Promise<string | undefined> {
  if (node.kind === 'map') return await values.secret(node, at.path)
  if (node.kind !== 'scalar' || !String(node.value).includes('-----BEGIN'))
    return await declaration.fileAt(node, at.path, 'the key')
  const message = 'a private key does not stand in this file; name the file of the key'
  declaration.error(at, siteErrors.SECRET_LITERAL, message)
  return undefined
}

function judgeTime(
  declaration: Declaration,
  { not_before: from, not_after: until }: Readonly<Record<string, unknown>>,
  at: At
): void {
  const now = declaration.input.clock.wall()
  if (Date.parse(String(until)) <= now) {
    const report = declaration.input.refuseExpired ? 'error' : 'warning'
    declaration[report](at, siteErrors.CERTIFICATE_EXPIRED, `the certificate has expired: it was valid until ${until}`)
  } else if (Date.parse(String(from)) > now) {
    declaration.warning(at, siteErrors.CERTIFICATE_EARLY, `the certificate is not valid before ${from}`)
  }
}
