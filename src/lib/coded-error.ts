/** An error that programs tell apart by `code`; `message` is for people and holds no secret. */
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
