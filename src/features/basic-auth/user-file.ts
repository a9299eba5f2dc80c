import { isAbsolute } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Scope } from '../../policy/action.js'
import { keyFolders, liesIn, readKeyFile, readKeyFileNow } from '../../policy/key-files.js'
import { type NodePath, policyErrors } from '../../policy/problems.js'
import { readHtpasswd } from './credentials.js'

/** Time after which the file is read again (ms). */
const FRESH = 10_000

/** Users of an htpasswd file as last read. Requests never wait for the file. */
export class UserFile {
  #users: ReadonlyMap<string, string>
  #readAt: number
  #reading = false
  readonly #path: string
  readonly #folders: readonly string[]
  readonly #services: Pick<Scope['services'], 'clock' | 'log'>

  constructor(path: string, folders: readonly string[], users: ReadonlyMap<string, string>, scope: Scope) {
    this.#path = path
    this.#folders = folders
    this.#users = users
    this.#services = scope.services
    this.#readAt = scope.services.clock.monotonic()
  }

  /** Returns the current hashes by user; starts to reread the file if it is due. */
  current(): ReadonlyMap<string, string> {
    if (!this.#reading && this.#services.clock.monotonic() - this.#readAt >= FRESH) {
      this.#reading = true
      void this.#renew()
    }
    return this.#users
  }

  /** Rereads the file. Keeps the users if it is unreadable, because a file being written is empty for a moment. */
  async #renew(): Promise<void> {
    const file = await readKeyFile(this.#path, this.#folders)
    this.#reading = false
    this.#readAt = this.#services.clock.monotonic()
    const fields = { action: 'basic-auth', file: this.#path }
    if (!file.ok) {
      this.#services.log.warn({ ...fields, reason: file.reason }, 'the users of a file could not be read again')
      return
    }
    const { users, wrong } = readHtpasswd(file.text)
    const isNew = !isDeepStrictEqual(users, this.#users)
    this.#users = users
    if (isNew && wrong[0] !== undefined)
      this.#services.log.warn({ ...fields, reason: wrong[0] }, 'a line of a file of users is no user')
  }
}

/** Reads the file of a policy and reports its problems. */
export function compileUserFile(path: string, at: NodePath, scope: Scope): UserFile {
  const folders = scope.service(keyFolders)
  if (!isAbsolute(path)) {
    scope.problem(at, policyErrors.CONFIG_INVALID, 'file must be an absolute path')
    return new UserFile(path, [], new Map(), scope)
  }
  if (folders?.some((folder) => liesIn(folder, path)) === false) {
    const where = folders.length === 0 ? 'none is allowed here' : `allowed are ${folders.join(', ')}`
    const message = `file lies in no folder that policies may read from (option jwt.key_folders): ${where}`
    scope.problem(at, policyErrors.CONFIG_INVALID, message)
    return new UserFile(path, [], new Map(), scope)
  }
  const file = readKeyFileNow(path, folders)
  if (!file.ok)
    scope.warn(at, policyErrors.CONFIG_INVALID, `${file.reason} now; until it can be, none of its users passes`)
  const { users, wrong } = readHtpasswd(file.ok ? file.text : '')
  for (const reason of wrong.slice(0, 5))
    scope.warn(at, policyErrors.CONFIG_INVALID, `${reason}; this user cannot pass`)
  return new UserFile(path, folders ?? [], users, scope)
}
