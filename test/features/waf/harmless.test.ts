import t from 'tap'
import { readJson } from '../../../src/features/waf/bodies/json.js'
import { readMultipart } from '../../../src/features/waf/bodies/multipart.js'
import { readUrlencoded } from '../../../src/features/waf/bodies/urlencoded.js'
import type { BodyResult } from '../../../src/features/waf/bodies/values.js'
import { readXml } from '../../../src/features/waf/bodies/xml.js'
import { detectSqli } from '../../../src/features/waf/detect/sqli.js'
import { detectXss } from '../../../src/features/waf/detect/xss.js'
import { validateUrlEncoding, validateUtf8Encoding } from '../../../src/features/waf/validators.js'
import { FALSE_POSITIVES, harmlessRequests } from './harmless.js'

function read(contentType: string, body: Buffer): BodyResult {
  if (contentType.startsWith('application/json')) return readJson(body)
  if (contentType.startsWith('multipart/')) return readMultipart(body, { contentType })
  return contentType.startsWith('application/xml') ? readXml(body) : readUrlencoded(body)
}

/** Rules that use the detectors of SQL and scripts. */
const DETECTORS = [941_100, 942_100]

t.test('bodies of harmless requests are read without an error, and hold no attack but known ones', async (t) => {
  t.ok(harmlessRequests.length >= 150)
  const readers = new Set<string>()
  const found: string[] = []
  for (const { name, uri, headers, body } of harmlessRequests) {
    const type = headers['content-type'] ?? ''
    readers.add(type.split(';')[0] ?? '')
    const query = readUrlencoded(Buffer.from(uri.slice(uri.includes('?') ? uri.indexOf('?') + 1 : uri.length)))
    const content = body === undefined || type === 'text/plain' ? query : read(type, Buffer.from(body))
    t.equal(content.error, undefined, name)
    if ('strictError' in content) t.equal(content.strictError, false, name)
    t.equal(validateUrlEncoding(uri), undefined, name)
    const texts = [...query.values, ...content.values].flatMap(({ name, value }) => [name, value])
    const all = [...texts, ...Object.values(headers)]
    t.same(
      all.filter((text) => validateUtf8Encoding(text) !== undefined),
      [],
      name
    )
    if (all.some((text) => detectSqli(text) !== undefined || detectXss(text))) found.push(name)
  }
  const known = Object.entries(FALSE_POSITIVES).filter(([, { rules }]) => rules.some((id) => DETECTORS.includes(id)))
  t.same(found, Object.keys(Object.fromEntries(known)))
  t.same([...readers].sort(), [
    '',
    'application/json',
    'application/x-www-form-urlencoded',
    'application/xml',
    'multipart/form-data',
    'text/plain'
  ])
})
