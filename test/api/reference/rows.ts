import { generateSshKey } from '../../../src/resources/ssh-key.js'

export type Body = Readonly<Record<string, unknown>>

/** A request that creates an object which a row refers to: `$name` in later bodies and paths is its id. */
export type Before = readonly [name: string, path: string, body: Body]

/** An operation that a family has besides create, get, list, update and delete. */
export interface Extra {
  /** Name after the family's. */
  readonly name: string
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Path after the object's path. */
  readonly path: string
  /** Members that the answer has; an answer without them is an empty 204. */
  readonly answer?: Body
}

/**
 * Requests and answers of one family of the reference's API, with its operations. Texts of an answer that begin with a colon name a kind
 * (see `mismatch`); everything else is a value. A member of the request that the answer has as well comes back as it was sent, unless the
 * answer says another value.
 */
export interface Family {
  /** The reference's name of the family; names of operations begin with it. */
  readonly name: string
  readonly path: string
  /** Prefix of ids. */
  readonly prefix: string
  /** Member that the path of an object ends with. @default id */
  readonly key?: string
  /** Key of the list in the answer to a list. */
  readonly list?: string
  /** The list has no pages. */
  readonly whole?: boolean
  /** @default create, get, list, update and delete */
  readonly operations?: readonly ('create' | 'get' | 'list' | 'update' | 'delete')[]
  readonly extra?: readonly Extra[]
  readonly before?: readonly Before[]
  /** Body of the published request. */
  readonly create?: Body
  /** Members of `create` without which no object is created. */
  readonly needs?: readonly string[]
  /** Members of a second object that must differ from the first. */
  readonly other?: Body
  /** What the Python client sends for every member that its caller leaves out and that is not None. */
  readonly zeros?: { readonly create?: Body; readonly update?: Body }
  readonly answer: Body
  /** Members that only the answer to the creation shows; later they are null. */
  readonly once?: readonly string[]
  readonly update?: Body
  /** Members that the answer to the update shows, where they are not those of `update`. */
  readonly updated?: Body
  /** The Python client's list takes a filter. */
  readonly filter?: boolean
}

/** A module: PUT, GET and DELETE of a sub-path of an edge or a route. */
export interface Module {
  readonly name: string
  readonly path: string
  readonly put: Body
  readonly answer: Body
}

export const texts = { description: '', metadata: '' }
export const shown = { description: ':text', metadata: ':text', created_at: ':time', uri: ':uri' }

/** Both texts of an update. */
export const changed = { description: 'another text', metadata: '{"state": "new"}' }
/** SSH keys, one with a comment. */
export const SSH_KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKL12HPVHSPC32vPW/OtqDp4JvMdtNbAyYLGImDzAYgz ann@laptop'
export const OTHER_KEY = (await generateSshKey({ type: 'ecdsa', curve: 'p256' })).publicKey
