import type { ArchivedExchange } from '../recorder/har.js'
import type { ReadCase, TestStep } from './test-file.js'

/**
 * Converts an archive into one case: its requests are repeated at their times, and each must be decided as before. A request
 * that Sluice did not record was forwarded. `exchanges`: in the order of their start; at least one.
 */
export function recordedCase(
  file: string,
  line: number,
  exchanges: readonly [ArchivedExchange, ...ArchivedExchange[]]
): ReadCase {
  const [{ at: begun }] = exchanges
  let last = begun
  const steps = exchanges.map((exchange): TestStep => {
    const wait = exchange.at - last
    last = exchange.at
    return stepOf(exchange, wait)
  })
  return { name: `decided as in ${file}`, line, column: 1, path: 'recorded', now: begun, stubs: [], steps }
}

function stepOf(exchange: ArchivedExchange, wait: number): TestStep {
  const { method, url, headers, version, body, clientAddress = '192.0.2.1', decided = 'forwarded' } = exchange
  const isForwarded = decided === 'forwarded'
  return {
    wait,
    request: {
      method,
      url,
      headers,
      version,
      clientAddress,
      clientPort: 50_000,
      ...(body === undefined ? {} : { body })
    },
    upstream: {
      status: isForwarded && exchange.status >= 200 ? exchange.status : 200,
      headers: isForwarded ? exchange.responseHeaders : [],
      body: undefined
    },
    repeat: 1,
    every: 0,
    expect: { decided },
    isRecorded: true
  }
}
