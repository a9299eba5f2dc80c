import 'reflect-metadata'
import { type webcrypto, X509Certificate } from 'node:crypto'
import { chmod, mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { join } from 'node:path'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type JsonGeneralName,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator
} from '@peculiar/x509'
import type { Clock } from '../lib/clock.js'
import { CodedError, codeOf } from '../lib/coded-error.js'

/** What the agent listener shows, and what agents trust. PEM texts. */
export interface AgentsIdentity {
  /** Where the authority's certificate lies; undefined: nowhere, it lives as long as the process. */
  readonly caFile: string | undefined
  readonly ca: string
  /** Leaf and authority. */
  readonly cert: string
  readonly key: string
  /** When the leaf should be made anew, by calling again. Milliseconds since the Unix epoch. */
  readonly renewsAt: number
}

interface Pair {
  readonly cert: string
  readonly key: string
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const DAY = 86_400_000
const CA_LIFE = 3650 * DAY
const LEAF_LIFE = 365 * DAY
/** A leaf is made anew when a third of its life is left. */
const RENEW_BEFORE = LEAF_LIFE / 3
/** Clocks of agents may be late. */
const BACKDATED = DAY
const FOR_OTHERS = 0o077
const SUBJECT = 'CN=Sluice agents'

/**
 * An authority of our own in `folder` (`ca.pem`, `ca.key`) and a leaf for `names` (host names and addresses) signed by
 * it (`server.pem`, `server.key`). What is there is used again; the leaf is made anew when it names less than asked or
 * grows old. Agents refuse an authority that serves as its own leaf, so there are always two. Fails with a CodedError:
 * `AGENTS_CA_BROKEN`, `AGENTS_CA_EXPOSED` (others may read a key). Without a folder nothing is kept.
 */
export async function openAgentsIdentity(
  folder: string | undefined,
  names: readonly string[],
  clock: Clock
): Promise<AgentsIdentity> {
  const now = clock.wall()
  if (folder !== undefined) await mkdir(folder, { recursive: true, mode: 0o700 })
  const known = await readPair(folder, 'ca')
  const authority = known ?? (await makeAuthority(now))
  if (known === undefined) await writePair(folder, 'ca', authority)
  let leaf = await readPair(folder, 'server')
  if (leaf === undefined || !serves(leaf, authority, names, now)) {
    leaf = await makeLeaf(authority, names, now)
    await writePair(folder, 'server', leaf)
  }
  return {
    caFile: folder === undefined ? undefined : join(folder, 'ca.pem'),
    ca: authority.cert,
    cert: leaf.cert + authority.cert,
    key: leaf.key,
    renewsAt: Date.parse(new X509Certificate(leaf.cert).validTo) - RENEW_BEFORE
  }
}

function serves(leaf: Pair, authority: Pair, names: readonly string[], now: number): boolean {
  const certificate = new X509Certificate(leaf.cert)
  if (Date.parse(certificate.validTo) - RENEW_BEFORE <= now) return false
  if (!certificate.verify(new X509Certificate(authority.cert).publicKey)) return false
  return names.every(
    (name) => (isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name)) !== undefined
  )
}

async function makeAuthority(now: number): Promise<Pair> {
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: SUBJECT,
    notBefore: new Date(now - BACKDATED),
    notAfter: new Date(now + CA_LIFE),
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey)
    ]
  })
  return { cert: `${certificate.toString('pem')}\n`, key: await exportKey(keys.privateKey) }
}

async function makeLeaf(authority: Pair, names: readonly string[], now: number): Promise<Pair> {
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const san: JsonGeneralName[] = names.map((value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value }))
  const certificate = await X509CertificateGenerator.create({
    subject: `${SUBJECT} server`,
    issuer: SUBJECT,
    notBefore: new Date(now - BACKDATED),
    notAfter: new Date(now + LEAF_LIFE),
    publicKey: keys.publicKey,
    signingKey: await importKey(authority.key),
    signingAlgorithm: ALGORITHM,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new SubjectAlternativeNameExtension(san)
    ]
  })
  return { cert: `${certificate.toString('pem')}\n`, key: await exportKey(keys.privateKey) }
}

async function exportKey(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await crypto.subtle.exportKey('pkcs8', key)).toString('base64')
  return `-----BEGIN PRIVATE KEY-----\n${der.replace(/.{64}/g, '$&\n').trimEnd()}\n-----END PRIVATE KEY-----\n`
}

function importKey(pem: string): Promise<webcrypto.CryptoKey> {
  const der = Buffer.from(pem.replace(/-----[^-]+-----|\s/g, ''), 'base64')
  return crypto.subtle.importKey('pkcs8', der, ALGORITHM, false, ['sign'])
}

/** Undefined when neither file is there. */
async function readPair(folder: string | undefined, name: string): Promise<Pair | undefined> {
  if (folder === undefined) return undefined
  const [cert, key] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)]
  const texts = [await readIfThere(cert), await readIfThere(key)]
  if (texts[0] === undefined && texts[1] === undefined) return undefined
  if (texts[0] === undefined || texts[1] === undefined) {
    throw new CodedError('AGENTS_CA_BROKEN', `of ${cert} and ${key} one is missing; remove the other for a new pair`)
  }
  if (((await stat(key)).mode & FOR_OTHERS) !== 0) {
    throw new CodedError('AGENTS_CA_EXPOSED', `${key} may be read by others than its owner; chmod 600 ends that`)
  }
  try {
    new X509Certificate(texts[0])
    await importKey(texts[1])
  } catch (error) {
    throw new CodedError('AGENTS_CA_BROKEN', `${cert} or ${key} cannot be read; remove both for a new pair`, {
      cause: error
    })
  }
  return { cert: texts[0], key: texts[1] }
}

/** Each file appears as a whole; the key comes first, so that a certificate is never without its key. */
async function writePair(folder: string | undefined, name: string, { cert, key }: Pair): Promise<void> {
  if (folder === undefined) return
  await writeWhole(join(folder, `${name}.key`), key, 0o600)
  await writeWhole(join(folder, `${name}.pem`), cert, 0o644)
}

async function writeWhole(path: string, text: string, mode: number): Promise<void> {
  const beside = `${path}.${process.pid}.new`
  await writeFile(beside, text, { mode })
  await chmod(beside, mode)
  await rename(beside, path)
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}
