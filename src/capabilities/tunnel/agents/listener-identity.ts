import { randomBytes, X509Certificate } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { isIP } from 'node:net'
import { join } from 'node:path'
import type { SecureContext } from 'node:tls'
import type { Clock } from '../../../lib/clock.js'
import { ContentWatch } from '../../../lib/content-watch.js'
import { CodedError, codeOf, defineErrors } from '../../../lib/errors.js'
import { createFile, fileErrors, makeFolder, readPrivateFile, replaceFile } from '../../../lib/files.js'
import { makeAuthority, makeServerCertificate, readSigningKey } from '../../../lib/self-signed.js'
import type { Certificate } from '../../../runtime/certificates.js'
import type { SnapshotHolder } from '../../../runtime/snapshot.js'
import { serverContext } from '../../../transport/tls/terminate.js'

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

/** Certificate of the agent listener, and the authority that agents trust. PEM. */
export interface AgentsIdentity {
  /** File of the authority's certificate; undefined if it is in memory only. */
  readonly caFile: string | undefined
  readonly ca: string
  /** Leaf and authority. */
  readonly cert: string
  readonly key: string
  /** Time at which the leaf should be renewed, by calling again (ms since the Unix epoch). */
  readonly renewsAt: number
}

interface Pair {
  readonly cert: string
  readonly key: string
}

const DAY = 86_400_000
const CA_LIFE = 3650 * DAY
const LEAF_LIFE = 365 * DAY
/** Remaining lifetime at which a leaf is renewed (ms). */
const RENEW_BEFORE = LEAF_LIFE / 3
/** Permission bits of group and others. */
const FOR_OTHERS = 0o077
/** Subject of the authority. */
const SUBJECT = 'CN=Sluice agents'

/**
 * Opens the authority in `folder` (`ca.pem`, `ca.key`) and its leaf for `names` (host names and addresses; `server.pem`,
 * `server.key`), or creates them. The leaf is renewed if it lacks a name or nears its expiry. Agents reject an authority
 * that is its own leaf, so there are always two. Fails with a CodedError: `AGENTS_CA_BROKEN`, `AGENTS_CA_EXPOSED` (another
 * user may read a key). Without a folder nothing is stored.
 */
export async function openAgentsIdentity(
  folder: string | undefined,
  names: readonly string[],
  clock: Clock
): Promise<AgentsIdentity> {
  const now = clock.wall()
  if (folder !== undefined) makeFolder(folder)
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

/** Reads certificate and key; undefined if both files are missing. */
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

/** Codes of the listener that agents connect to. */
export const agentListenerErrors = defineErrors({
  AGENTS_ADDRESS: {
    text: 'Agents cannot come in at the address of the option agents.',
    help: 'Choose a free address, or one of a listener that speaks TLS.'
  },
  AGENTS_CERTIFICATE: {
    text: 'The options agents_certificate and agents_key are no certificate with its key.',
    help: 'Name both files, of the same pair.'
  },
  AGENTS_SECRET_BROKEN: {
    text: 'The file with the secret for the names of endpoints is damaged.',
    help: 'Restore it, or remove it for a new one; names that agents were given then change.'
  },
  AGENTS_SECRET_EXPOSED: {
    text: 'The file with the secret for the names of endpoints may be read by other users.',
    help: 'Run chmod 600 on the file.'
  }
})

interface ListenerIdentityParts {
  /** Paths of the operator's certificate and key (PEM). @default a certificate of the own authority */
  readonly given: { readonly certificate: string; readonly key: string } | undefined
  /** Folder of the own authority; undefined for none. */
  readonly folder: string | undefined
  /** Names that the listener always has. */
  readonly names: readonly string[]
  readonly holder: SnapshotHolder
  readonly clock: Clock
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
}

/** A certificate that an agent is shown. */
interface Shown {
  readonly context: SecureContext
  readonly covers: (name: string) => boolean
}

/** A timer of node waits no longer. Milliseconds. */
const LONGEST_WAIT = 2 ** 31 - 1

/**
 * Certificates of the agent listener: the operator's, or one of the own authority for its own names; an agent ingress with a
 * certificate uses that one.
 */
export class ListenerIdentity {
  /** File of the own authority's certificate, which agents must trust. */
  caFile: string | undefined
  readonly #parts: ListenerIdentityParts
  readonly #contexts = new WeakMap<Certificate, SecureContext>()
  #shown: Shown
  #ingresses: readonly string[] = []
  #timer: NodeJS.Timeout | undefined
  #watches: readonly ContentWatch[] = []

  private constructor(parts: ListenerIdentityParts, shown: Shown) {
    this.#parts = parts
    this.#shown = shown
  }

  /**
   * Fails with a CodedError: `FILE_UNREADABLE`, `AGENTS_CERTIFICATE` (certificate and key do not fit), `AGENTS_CA_BROKEN`
   * or `AGENTS_CA_EXPOSED`.
   */
  static async open(parts: ListenerIdentityParts, ingresses: readonly string[]): Promise<ListenerIdentity> {
    if (parts.given !== undefined) {
      const identity = new ListenerIdentity(parts, await given(parts.given))
      await identity.#watch(parts.given)
      return identity
    }
    const identity = new ListenerIdentity(parts, NOTHING_YET)
    await identity.names(ingresses)
    return identity
  }

  /** The agent ingresses have these names from now on. */
  async names(ingresses: readonly string[]): Promise<void> {
    const { given, folder, names, clock } = this.#parts
    if (given !== undefined) return
    this.#ingresses = ingresses
    const { caFile, cert, key, renewsAt } = await openAgentsIdentity(folder, [...names, ...ingresses], clock)
    this.caFile = caFile
    this.#shown = shown(cert, key)
    clearTimeout(this.#timer)
    const wait = Math.min(LONGEST_WAIT, Math.max(0, renewsAt - clock.wall()))
    this.#timer = setTimeout(() => void this.#renew(), wait).unref()
  }

  /** Returns the TLS context for the name `name`. Throws if the certificate of an ingress cannot be used. */
  contextFor(name: string | undefined): SecureContext {
    const { holder, given, clock } = this.#parts
    // The operator's certificate serves all its names; that of an ingress precedes the own authority's.
    if (name === undefined || (given !== undefined && this.#shown.covers(name))) return this.#shown.context
    const certificate = holder.current().tables.certificates.find(name.toLowerCase(), clock.wall())
    if (certificate === undefined) return this.#shown.context
    let context = this.#contexts.get(certificate)
    if (context === undefined) {
      const { chain, privateKey, also } = certificate
      const pair =
        also === undefined
          ? { cert: chain, key: privateKey }
          : { cert: [chain, also.chain], key: [privateKey, also.privateKey] }
      context = serverContext(pair)
      this.#contexts.set(certificate, context)
    }
    return context
  }

  /** Is this a name of the operator's certificate that no edge has? Agents ask for it then. */
  isOperators(name: string): boolean {
    const { given, holder } = this.#parts
    if (given === undefined || !this.#shown.covers(name)) return false
    return holder.current().claimant(name) === undefined
  }

  close(): void {
    clearTimeout(this.#timer)
    for (const watch of this.#watches) void watch.close()
  }

  /** Shows the operator's certificate as its files are from now on. Until both fit each other again, the former one is shown. */
  async #watch(files: NonNullable<ListenerIdentityParts['given']>): Promise<void> {
    const { log } = this.#parts
    const failed = (err: unknown) => log.warn({ err }, 'the certificate of the agent listener stays the former one')
    const changed = async () => {
      this.#shown = await given(files)
      log.info({ certificate: files.certificate }, 'agents are shown another certificate from now on')
    }
    const starting = [files.certificate, files.key].map((file) => ContentWatch.start(file, changed, failed))
    this.#watches = await Promise.all(starting)
  }

  async #renew(): Promise<void> {
    try {
      await this.names(this.#ingresses)
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'the certificate of the agent listener cannot be made anew')
    }
  }
}

const NOTHING_YET: Shown = {
  get context(): SecureContext {
    throw new TypeError('the agent listener has no certificate yet')
  },
  covers: () => false
}

async function given({ certificate, key }: NonNullable<ListenerIdentityParts['given']>): Promise<Shown> {
  const texts = await Promise.all([read(certificate, 'agents_certificate'), read(key, 'agents_key')])
  try {
    return shown(...texts)
  } catch (error) {
    throw new CodedError(
      agentListenerErrors.AGENTS_CERTIFICATE,
      `${certificate} and ${key} are no certificate with its key`,
      {
        cause: error
      }
    )
  }
}

function shown(cert: string, key: string): Shown {
  const leaf = new X509Certificate(cert)
  return { context: serverContext({ cert, key }), covers: (name) => leaf.checkHost(name) !== undefined }
}

async function read(path: string, option: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw new CodedError(fileErrors.FILE_UNREADABLE, `${option}: cannot read ${path}`, { cause: error })
  }
}

const FILE = 'names.secret'
const BYTES = 32

/**
 * The secret from which agents' names are derived, kept in `folder` so that agents keep them when this process starts
 * again. Without a folder it lives as long as the process. Fails with a CodedError: `AGENTS_SECRET_EXPOSED`,
 * `AGENTS_SECRET_BROKEN`.
 */
export async function openNamesSecret(folder: string | undefined): Promise<Uint8Array> {
  if (folder === undefined) return randomBytes(BYTES)
  makeFolder(folder)
  const path = join(folder, FILE)
  return (await readSecret(path)) ?? (await makeSecret(path))
}

async function readSecret(path: string): Promise<Uint8Array | undefined> {
  const secret = await readPrivateFile(path)
  if (secret === 'exposed') {
    throw new CodedError(
      agentListenerErrors.AGENTS_SECRET_EXPOSED,
      `${path} may be read by others than its owner; chmod 600 ends that`
    )
  }
  if (secret === undefined || secret.length === BYTES) return secret
  throw new CodedError(
    agentListenerErrors.AGENTS_SECRET_BROKEN,
    `${path} does not hold ${BYTES} bytes; remove it for a new one`
  )
}

async function makeSecret(path: string): Promise<Uint8Array> {
  await createFile(path, randomBytes(BYTES))
  const secret = await readSecret(path)
  if (secret === undefined) throw new CodedError(agentListenerErrors.AGENTS_SECRET_BROKEN, `${path} has gone`)
  return secret
}
