import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** What h2spec looks at. */
export interface Http2Scan {
  readonly engine: string
  /** Path of the program. */
  readonly program: string
  readonly port: number
  /** TLS; otherwise HTTP/2 in clear text by prior knowledge. */
  readonly secure: boolean
}

/** Cases of release 2.6.0: fewer mean that it broke off. */
const CASES = 146
const SUMMARY = /(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed/

/** All cases of h2spec, the strict ones too; prints those that failed and how many passed, and answers how many did not. */
export async function scanHttp2({ engine, program, port, secure }: Http2Scan): Promise<number> {
  const where = `h2spec ${engine} ${secure ? 'TLS' : 'plain'}`
  // It sends the host as SNI, where an address is none.
  const words = ['--strict', '--timeout', '5', '--host', secure ? 'localhost' : '127.0.0.1', '--port', String(port)]
  const child = spawn(program, [...words, ...(secure ? ['--tls', '--insecure'] : [])], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString()
  })
  await once(child, 'close')
  const found = SUMMARY.exec(text)
  if (found === null) {
    console.log(`${where}: broke off: ${text.slice(-500)}`)
    return 1
  }
  const [tests = 0, passed = 0] = found.slice(1).map(Number)
  if (passed < tests) console.log(text.slice(text.indexOf('Failures:')))
  console.log(`${where}: ${passed} of ${Math.max(tests, CASES)}`)
  return Math.max(tests, CASES) - passed
}
