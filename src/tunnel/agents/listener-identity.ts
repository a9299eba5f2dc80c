import { randomBytes, X509Certificate } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SecureContext } from 'node:tls'
import type { Clock } from '../../lib/clock.js'
import { CodedError, defineErrors } from '../../lib/errors.js'
import { createFile, fileErrors, readPrivateFile } from '../../lib/files.js'
import type { Certificate } from '../../runtime/certificates.js'
import type { SnapshotHolder } from '../../runtime/snapshot.js'
import { serverContext } from '../../transport/tls/terminate.js'
import { openAgentsIdentity } from '../server/ca.js'

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
  /** The operator's certificate and key, as paths of PEM files; undefined: of an authority of our own. */
  readonly given: { readonly certificate: string; readonly key: string } | undefined
  /** Where our own authority lies; undefined: nowhere. */
  readonly folder: string | undefined
  /** Names that the listener always has. */
  readonly names: readonly string[]
  readonly holder: SnapshotHolder
  readonly clock: Clock
  readonly log: { warn(fields: object, message: string): void }
}

/** A certificate that an agent is shown. */
interface Shown {
  readonly context: SecureContext
  readonly covers: (name: string) => boolean
}

/** A timer of node waits no longer. Milliseconds. */
const LONGEST_WAIT = 2 ** 31 - 1

/**
 * What the agent listener shows: the operator's certificate or one of our own authority for its own names, and for agent
 * ingresses with a certificate that one.
 */
export class ListenerIdentity {
  /** Where the certificate of our own authority lies, for those who start agents. */
  caFile: string | undefined
  readonly #parts: ListenerIdentityParts
  readonly #contexts = new WeakMap<Certificate, SecureContext>()
  #shown: Shown
  #ingresses: readonly string[] = []
  #timer: NodeJS.Timeout | undefined

  private constructor(parts: ListenerIdentityParts, shown: Shown) {
    this.#parts = parts
    this.#shown = shown
  }

  /**
   * Fails with a CodedError: `FILE_UNREADABLE`, `AGENTS_CERTIFICATE` (certificate and key do not fit), `AGENTS_CA_BROKEN`
   * or `AGENTS_CA_EXPOSED`.
   */
  static async open(parts: ListenerIdentityParts, ingresses: readonly string[]): Promise<ListenerIdentity> {
    if (parts.given !== undefined) return new ListenerIdentity(parts, await given(parts.given))
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

  /** What an agent that asks for `name` is shown. Throws when the certificate of an ingress cannot be used. */
  contextFor(name: string | undefined): SecureContext {
    const { holder, given } = this.#parts
    // The certificate of the operator is for all that it names; an ingress with a certificate of its own comes before our authority.
    if (name === undefined || (given !== undefined && this.#shown.covers(name))) return this.#shown.context
    const certificate = holder.current().tables.certificates.find(name.toLowerCase())
    if (certificate === undefined) return this.#shown.context
    let context = this.#contexts.get(certificate)
    if (context === undefined) {
      context = serverContext({ cert: certificate.chain, key: certificate.privateKey })
      this.#contexts.set(certificate, context)
    }
    return context
  }

  /** Is this a name of the operator's certificate that no edge has? Agents ask for it then. */
  isOperators(name: string): boolean {
    const { given, holder } = this.#parts
    if (given === undefined || !this.#shown.covers(name)) return false
    const edge = holder.current().edge(name)
    return edge === undefined || edge.hosts === 'every'
  }

  close(): void {
    clearTimeout(this.#timer)
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
  await mkdir(folder, { recursive: true, mode: 0o700 })
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
