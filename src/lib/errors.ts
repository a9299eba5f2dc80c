/** An error that programs recognise by `code`; `message` is for people and holds no secret. */
export class CodedError extends Error {
  readonly code: string

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'CodedError'
    this.code = code
  }
}

/** The code of an error of ours or of the system (`EADDRINUSE`), or undefined. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** What stands in a table under a code: the HTTP status where there is always the same one, and the meaning for documents. */
export interface ErrorMeaning {
  readonly status?: number
  /** The connection ends with the answer. */
  readonly close?: boolean
  readonly text: string
}

/** The rows of a table under their codes; each row carries its own code. */
export type ErrorTable<T extends Readonly<Record<string, ErrorMeaning>>> = {
  readonly [Code in keyof T & string]: T[Code] & { readonly code: Code }
}

/** Declares error codes. The rest of the source takes rows, so that code and status are written once. */
export function defineErrors<const T extends Readonly<Record<string, ErrorMeaning>>>(table: T): ErrorTable<T> {
  const rows = Object.entries(table).map(([code, meaning]) => [code, { ...meaning, code }])
  return Object.freeze(Object.fromEntries(rows)) as ErrorTable<T>
}
