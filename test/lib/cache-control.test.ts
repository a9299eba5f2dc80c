import t from 'tap'
import { compilePathPattern, orderPatterns, readCacheControl } from '../../src/lib/cache-control.js'

t.test('durations and directives make the value of Cache-Control', async (t) => {
  const table: [text: string, value: string | undefined][] = [
    ['1y immutable', 'max-age=31536000, immutable'],
    ['no-cache', 'no-cache'],
    ['10m', 'max-age=600'],
    ['public, 2h, stale-while-revalidate=1d', 'public, max-age=7200, stale-while-revalidate=86400'],
    ['max-age=60 must-revalidate', 'max-age=60, must-revalidate'],
    ['s-maxage=1w', 's-maxage=604800'],
    ['forever', undefined],
    ['1 year', undefined],
    ['max-age=', undefined],
    ['no-cache\r\nX: y', undefined],
    ['', undefined]
  ]
  for (const [text, value] of table) t.equal(readCacheControl(text), value, JSON.stringify(text))
})

t.test('patterns match names or whole paths', async (t) => {
  const table: [pattern: string, matches: string[], others: string[]][] = [
    ['*.{js,css}', ['/a.js', '/b/c.css', '/.js'], ['/a.jsx', '/js', '/a.js/b']],
    ['/assets/**', ['/assets/a', '/assets/b/c.js'], ['/assets', '/x/assets/a']],
    ['assets/*.png', ['/assets/a.png'], ['/assets/b/a.png', '/x/assets/a.png']],
    ['sw.js', ['/sw.js', '/b/sw.js'], ['/aсsw.js', '/xsw.js', '/sw-js']],
    ['?.txt', ['/a.txt', '/b/é.txt'], ['/ab.txt', '/.txt']],
    ['a+(b)[c].txt', ['/a+(b)[c].txt'], ['/aab.txt']],
    ['default', ['/anything', '/'], []]
  ]
  for (const [pattern, matches, others] of table) {
    const compiled = compilePathPattern(pattern) as RegExp
    for (const path of matches) t.ok(compiled.test(path), `${pattern} ${path}`)
    for (const path of others) t.notOk(compiled.test(path), `${pattern} ${path}`)
  }
  for (const malformed of ['', '{a', 'a}', '{a{b}}', '***', '*a*b*c*d*e'])
    t.equal(compilePathPattern(malformed), undefined, malformed)
})

t.test('the most exact pattern comes first', async (t) => {
  const patterns = {
    default: '1',
    '*.js': '2',
    '*': '3',
    '/sw.js': '4',
    'app.js': '5',
    '/assets/**': '6',
    '*.{javascript,x}': '7'
  }
  t.same(
    orderPatterns(patterns).map(([pattern]) => pattern),
    ['/assets/**', '/sw.js', 'app.js', '*.js', '*.{javascript,x}', '*', 'default']
  )
})
