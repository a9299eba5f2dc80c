import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { readUrlencoded } from '../../../src/features/waf/bodies/urlencoded.js'
import { readXml } from '../../../src/features/waf/bodies/xml.js'
import { detectSqli } from '../../../src/features/waf/detect/sqli.js'
import { detectXss } from '../../../src/features/waf/detect/xss.js'
import { transformation } from '../../../src/features/waf/transformations.js'

/** Regression tests of a rule set, if there are any. */
const folder = path.join(process.env.SLUICE_CRS ?? '../shared/crs', 'tests')

interface Input {
  readonly uri: string
  readonly data?: string
  readonly headers: Readonly<Record<string, string>>
}

interface RuleTests {
  readonly tests: readonly {
    readonly test_id: number
    readonly stages: readonly {
      readonly input: Input
      readonly output: { readonly log: { readonly expect_ids?: readonly number[] } }
    }[]
  }[]
}

const latin1 = (text: string) => Buffer.from(text, 'utf8').toString('latin1')

function* texts({ uri, data, headers }: Input, inPath: boolean): Generator<string> {
  const mark = uri.indexOf('?')
  const target = latin1(uri)
  if (inPath) {
    yield mark === -1 ? target : target.slice(0, mark)
    yield target.slice(target.lastIndexOf('/') + 1)
    return
  }
  const bodies = [mark === -1 ? '' : target.slice(mark + 1), latin1(data ?? '')]
  const xml = headers['Content-Type']?.includes('xml') === true
  for (const [index, body] of bodies.entries()) {
    const read = index === 1 && xml ? readXml : readUrlencoded
    for (const { name, value } of read(Buffer.from(body, 'latin1')).values) yield* [name, value]
  }
  yield latin1(headers['User-Agent'] ?? '')
}

const SQL = ['utf8toUnicode', 'urlDecodeUni', 'removeNulls']
const XSS = ['utf8toUnicode', 'urlDecodeUni', 'htmlEntityDecode', 'jsDecode', 'cssDecode', 'removeNulls']

const RULES = [
  { file: 'REQUEST-942-APPLICATION-ATTACK-SQLI/942100.yaml', inPath: false, steps: SQL, detect: detectSqli },
  { file: 'REQUEST-942-APPLICATION-ATTACK-SQLI/942101.yaml', inPath: true, steps: SQL, detect: detectSqli },
  { file: 'REQUEST-941-APPLICATION-ATTACK-XSS/941100.yaml', inPath: false, steps: XSS, detect: detectXss },
  { file: 'REQUEST-941-APPLICATION-ATTACK-XSS/941101.yaml', inPath: true, steps: XSS, detect: detectXss }
]

for (const { file, inPath, steps, detect } of RULES) {
  t.test(`regression tests of a rule set: ${file}`, { skip: !existsSync(folder) }, async (t) => {
    const { tests } = parse(readFileSync(path.join(folder, file), 'utf8')) as RuleTests
    for (const { test_id, stages } of tests) {
      for (const { input, output } of stages) {
        const referer = inPath ? [latin1(input.headers.Referer ?? '')] : []
        const found = [...texts(input, inPath), ...referer].some((text) => {
          const decoded = steps.reduce((value, step) => transformation(step)?.(value) ?? value, text)
          return Boolean(detect(decoded))
        })
        t.equal(found, output.log.expect_ids !== undefined, `${file} ${test_id}`)
      }
    }
  })
}
