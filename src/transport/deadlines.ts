import type { AbortSignalLike, Failure, RequestHead } from '../flow/exchange.js'
import type { ListenLimits } from './contract.js'

type Run = (why: Failure) => void

const nothing = (): void => undefined

const CONTENT_TYPE = 'content-type'

/**
 * How long an exchange may be silent in both directions while bytes of its client are due: before its answer begins that is the time
 * of an upload. Streams of gRPC may wait from their beginning. Undefined: what is left of a request that has its answer. Milliseconds; 0: for ever.
 */
export function silenceAllowed(
  exchange: { readonly begun: boolean; readonly request: Pick<RequestHead, 'headers'> } | undefined,
  { bodyIdle, streamIdle = bodyIdle }: Pick<ListenLimits, 'bodyIdle' | 'streamIdle'>
): number {
  if (exchange === undefined) return bodyIdle
  return exchange.begun || isGrpc(exchange.request.headers) ? streamIdle : bodyIdle
}

function isGrpc(headers: RequestHead['headers']): boolean {
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    if (name.length === CONTENT_TYPE.length && name.toLowerCase() === CONTENT_TYPE)
      return (headers[i + 1] as string).toLowerCase().startsWith('application/grpc')
  }
  return false
}

/** The list behind `AbortSignalLike`: costs one object per exchange, and a set only for a second listener. */
export class AbortList implements AbortSignalLike {
  #aborted: Failure | undefined = undefined
  #first: Run | undefined = undefined
  #others: Set<Run> | undefined = undefined

  get aborted(): Failure | undefined {
    return this.#aborted
  }

  onAbort(run: Run): () => void {
    if (this.#aborted !== undefined) {
      run(this.#aborted)
      return nothing
    }
    if (this.#first === undefined) this.#first = run
    else {
      this.#others ??= new Set()
      this.#others.add(run)
    }
    return () => {
      if (this.#first === run) this.#first = undefined
      else this.#others?.delete(run)
    }
  }

  /** Fires once; a second call changes nothing. */
  abort(why: Failure): void {
    if (this.#aborted !== undefined) return
    this.#aborted = why
    const first = this.#first
    const others = this.#others
    this.#first = this.#others = undefined
    first?.(why)
    if (others !== undefined) for (const run of others) run(why)
  }
}
