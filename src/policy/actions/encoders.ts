import type { Duplex } from 'node:stream'
import zlib from 'node:zlib'
import { LzwEncoder } from './lzw.js'

/** Codings that this proxy can apply, the preferred first where a client likes several equally. */
const CODINGS = ['br', 'zstd', 'gzip', 'deflate', 'compress'] as const
export type Coding = (typeof CODINGS)[number]

/** A stream of node:zlib, or one like it. */
export type Encoder = Duplex & {
  /** Bytes that went in. */
  readonly bytesWritten: number
}

/** Not in Node 20, so the type definitions do not know it. */
const { createZstdCompress } = zlib as { createZstdCompress?: (options: object) => Encoder }
const { constants } = zlib
const ZSTD_FLUSH = 1

/** The codings of this Node version. */
export const availableCodings: readonly Coding[] = CODINGS.filter(
  (coding) => coding !== 'zstd' || createZstdCompress !== undefined
)

/** Those that are offered where a configuration names none: `compress` takes time of the traffic's own thread. */
export const usualCodings: readonly Coding[] = availableCodings.filter((coding) => coding !== 'compress')

/**
 * A stream that encodes. `live`: everything that was written comes out at once, so that a stream is not held back, which
 * `compress` cannot do; else the encoder gathers, which gives smaller bodies. Windows are small enough to keep thousands of streams.
 */
export function encoder(coding: Coding, live: boolean): Encoder {
  switch (coding) {
    case 'br':
      return zlib.createBrotliCompress({
        flush: live ? constants.BROTLI_OPERATION_FLUSH : constants.BROTLI_OPERATION_PROCESS,
        params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 18 }
      })
    case 'gzip':
      return zlib.createGzip({ flush: live ? constants.Z_SYNC_FLUSH : constants.Z_NO_FLUSH })
    case 'deflate':
      // The coding "deflate" is the zlib format (RFC 9110 8.4.1.2), not raw deflate.
      return zlib.createDeflate({ flush: live ? constants.Z_SYNC_FLUSH : constants.Z_NO_FLUSH })
    case 'zstd':
      if (createZstdCompress === undefined) throw new Error('zstd is not part of this Node version')
      return createZstdCompress(live ? { flush: ZSTD_FLUSH } : {})
    case 'compress':
      return new LzwEncoder()
  }
}
