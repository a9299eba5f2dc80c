import { X509Certificate } from 'node:crypto'
import { mkdir, readFile, stat } from 'node:fs/promises'
import { isIP } from 'node:net'
import { join } from 'node:path'
import type { Clock } from '../../lib/clock.js'
import { CodedError, codeOf, defineErrors } from '../../lib/errors.js'
import { replaceFile } from '../../lib/files.js'
import { makeAuthority, makeServerCertificate, readSigningKey } from '../../lib/self-signed.js'

/** Codes of the authority that agents trust. */
export const agentAuthorityErrors = defineErrors({
  AGENTS_CA_BROKEN: {
    text: 'The certificate or the key of the authority for agents is missing or cannot be read.',
    help: 'Restore the pair, or remove both files for a new pair; agents then need the new certificate.'
  },
  AGENTS_CA_EXPOSED: {
    text: 'The key of the authority for agents may be read by other users.',
    help: 'Run chmod 600 on the file, and renew the pair if others may have seen the key.'
  }
})

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

const DAY = 86_400_000
const CA_LIFE = 3650 * DAY
const LEAF_LIFE = 365 * DAY
/** A leaf is made anew when a third of its life is left. */
const RENEW_BEFORE = LEAF_LIFE / 3
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
  const authority = known ?? (await makeAuthority(SUBJECT, { now, life: CA_LIFE }))
  if (known === undefined) await writePair(folder, 'ca', authority)
  let leaf = await readPair(folder, 'server')
  if (leaf === undefined || !serves(leaf, authority, names, now)) {
    const signer = { subject: SUBJECT, key: authority.key }
    leaf = await makeServerCertificate(`${SUBJECT} server`, names, { now, life: LEAF_LIFE }, signer)
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

/** Undefined when neither file is there. */
async function readPair(folder: string | undefined, name: string): Promise<Pair | undefined> {
  if (folder === undefined) return undefined
  const [cert, key] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)]
  const texts = [await readIfThere(cert), await readIfThere(key)]
  if (texts[0] === undefined && texts[1] === undefined) return undefined
  if (texts[0] === undefined || texts[1] === undefined) {
    throw new CodedError(
      agentAuthorityErrors.AGENTS_CA_BROKEN,
      `of ${cert} and ${key} one is missing; remove the other for a new pair`
    )
  }
  if (((await stat(key)).mode & FOR_OTHERS) !== 0) {
    throw new CodedError(
      agentAuthorityErrors.AGENTS_CA_EXPOSED,
      `${key} may be read by others than its owner; chmod 600 ends that`
    )
  }
  try {
    new X509Certificate(texts[0])
    await readSigningKey(texts[1])
  } catch (error) {
    throw new CodedError(
      agentAuthorityErrors.AGENTS_CA_BROKEN,
      `${cert} or ${key} cannot be read; remove both for a new pair`,
      {
        cause: error
      }
    )
  }
  return { cert: texts[0], key: texts[1] }
}

/** Each file appears as a whole; the key comes first, so that a certificate is never without its key. */
async function writePair(folder: string | undefined, name: string, { cert, key }: Pair): Promise<void> {
  if (folder === undefined) return
  await replaceFile(join(folder, `${name}.key`), key)
  await replaceFile(join(folder, `${name}.pem`), cert, 0o644)
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}
