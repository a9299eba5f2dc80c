/** An object with an error code: a row of a table, or an error whose code is used with another message. */
export interface Coded {
  readonly code: string
  /** Advice for the reader of the code. */
  readonly help?: string | undefined
}

/** An error that programs identify by `code`; `message` is for people and contains no secret. */
export class CodedError extends Error {
  readonly code: string
  readonly #help: string | undefined

  constructor({ code, help }: Coded, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'CodedError'
    this.code = code
    this.#help = help
  }

  /** Advice from the table of the code; undefined if the code is in no table. Not a field that logs show. */
  get help(): string | undefined {
    return this.#help
  }
}

/** Returns the code of one of our errors or a system error (`EADDRINUSE`), or undefined. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** A code of ngrok, `ERR_NGROK_<number>`, and its situation. */
export interface NgrokCode {
  readonly number: number
  /** Resource of the request. @default any */
  readonly resource?: string
  /** Field to blame, without the index of a list. @default any */
  readonly field?: string
  /** Member of the body that is true. @default any body */
  readonly sent?: string
}

/** Table entry of an error code. Both sentences appear in the reference documentation. */
export interface ErrorMeaning {
  /** HTTP status, if the code is used in responses. */
  readonly status?: number
  /** Further statuses that depend on the cause or the configuration. */
  readonly otherStatuses?: readonly number[]
  /** Codes of ngrok for the situations by which its tools decide; its clients get them in place of the code. */
  readonly ngrok?: readonly NgrokCode[]
  /** Closes the connection after the response. */
  readonly close?: boolean
  /** One sentence that describes the error. */
  readonly text: string
  /** Advice for the reader of the code. */
  readonly help: string
}

/** One error: its code with its meaning. */
export type ErrorRow = ErrorMeaning & Coded

/** The rows of a table under their codes; each row carries its own code. */
export type ErrorTable<T extends Readonly<Record<string, ErrorMeaning>> = Readonly<Record<string, ErrorMeaning>>> = {
  readonly [Code in keyof T & string]: T[Code] & { readonly code: Code }
}

/** Declares error codes. Other code uses the rows, so that code and status are written once. */
export function defineErrors<const T extends Readonly<Record<string, ErrorMeaning>>>(table: T): ErrorTable<T> {
  const rows = Object.entries(table).map(([code, meaning]) => [code, { ...meaning, code }])
  return Object.freeze(Object.fromEntries(rows)) as ErrorTable<T>
}

/** The meaning of a row as a message has it: without a capital at its beginning and a full stop at its end. */
export function messageOf({ text }: Pick<ErrorMeaning, 'text'>): string {
  return `${text.charAt(0).toLowerCase()}${text.slice(1, -1)}`
}
