import { randomInt } from 'node:crypto'
import t from 'tap'
import { returnPath } from '../../../src/policy/login-selection.js'

const ORIGIN = 'https://app.example.com'

t.test('paths of this origin are kept', async (t) => {
  for (const path of [
    '/',
    '/a',
    '/a/b?c=d&e=%2F%2Fx',
    '/a//b',
    '/?next=//evil.test',
    '/a#b',
    '/%20a',
    '/a:b@c',
    '/~x/..a'
  ]) {
    t.equal(returnPath(path), path)
  }
  t.equal(returnPath('/a/../b'), '/b')
})

t.test('other origins are refused in every spelling that is known', async (t) => {
  const refused = [
    '',
    'a',
    '//evil.test',
    '///evil.test',
    '/\\evil.test',
    '\\\\evil.test',
    '\\/evil.test',
    '/\t/evil.test',
    '/\n/evil.test',
    '\t//evil.test',
    ' //evil.test',
    '/%2f%2fevil.test',
    '%2f%2fevil.test',
    '/%2Fevil.test',
    '/%5cevil.test',
    '/%255cevil.test',
    '/%252f%252fevil.test',
    '/.//evil.test',
    '/..//evil.test',
    '/a/..//evil.test',
    '/a/../%2fevil.test',
    '/%2e/%2f/evil.test',
    '/%2e%2e//evil.test',
    'https://evil.test',
    'https:evil.test',
    'https:/evil.test',
    'http:///evil.test',
    'javascript:alert(1)',
    'data:text/html,x',
    '@evil.test',
    '.evil.test',
    ':80/x',
    '/\u0000/evil.test',
    '/\u2028/evil.test',
    '/／evil.test',
    '/\r\nSet-Cookie: a=b',
    '/a\r\nlocation: //evil.test',
    '/.sluice/logout',
    '/ngrok/login',
    `/${'a'.repeat(3000)}`
  ]
  for (const [i, text] of refused.entries()) t.equal(returnPath(text), undefined, `spelling ${i}`)
})

t.test('whatever is kept leads to this origin, however browsers and proxies read it', async (t) => {
  const parts = [
    '/',
    '\\',
    '%2f',
    '%5C',
    '%25',
    '2f',
    '.',
    '..',
    '%2e',
    'evil.test',
    ':',
    '@',
    '?',
    '#',
    'https:',
    '\t',
    '\r',
    '\n',
    ' ',
    'a',
    '%00',
    '//',
    '／',
    ';',
    '~',
    '%09'
  ]
  let kept = 0
  for (let i = 0; i < 40_000; i++) {
    let text = randomInt(4) === 0 ? '' : '/'
    for (let n = randomInt(7); n >= 0; n--) text += parts[randomInt(parts.length)]
    const path = returnPath(text)
    if (path === undefined) continue
    kept++
    for (const read of [path, decoded(path), decoded(decoded(path))]) {
      for (const spelled of [read, read.replaceAll('\\', '/'), read.replace(/[\t\r\n]/g, '')]) {
        const [begin = ''] = spelled.split(/[?#]/)
        if (begin.startsWith('//') || !begin.startsWith('/'))
          t.fail(`${JSON.stringify(text)} became ${JSON.stringify(path)}`)
      }
    }
    if (new URL(path, ORIGIN).origin !== ORIGIN) t.fail(JSON.stringify(text))
    if (returnPath(path) !== path) t.fail(`${JSON.stringify(path)} is no normal form`)
  }
  t.ok(kept > 1_000, `${kept} of 40,000 were kept`)
})

function decoded(path: string): string {
  const mark = path.search(/[?#]/)
  const [begin, rest] = mark === -1 ? [path, ''] : [path.slice(0, mark), path.slice(mark)]
  return (
    begin.replace(/%([0-7][0-9a-f])/gi, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16))) + rest
  )
}
