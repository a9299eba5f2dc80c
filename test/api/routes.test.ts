import t from 'tap'
import { Routes } from '../../src/api/routes.js'

const nothing = async () => undefined

t.test('A path is found by its segments, and one that is written out wins over one with parameters', async (t) => {
  const routes = new Routes()
  routes.add('GET', '/backends/{id}', {}, nothing)
  routes.add('DELETE', '/backends/{id}', {}, nothing)
  routes.add('GET', '/backends/mine', { open: true }, nothing)
  routes.add('PUT', '/backends/{backend_id}/routes/{id}', { body: 'json' }, nothing)
  t.match(routes.find('GET', '/backends/mine?limit=1'), { config: { open: true }, values: {} })
  t.match(routes.find('GET', '/backends/bk_1'), { config: {}, values: { id: 'bk_1' } })
  t.match(routes.find('HEAD', '/backends/bk_1'), { values: { id: 'bk_1' } }, 'HEAD is answered as GET')
  t.match(routes.find('DELETE', '/backends/mine'), { values: { id: 'mine' } }, 'where the written one lacks the method')
  t.match(routes.find('PUT', '/backends/a/routes/b'), { values: { backend_id: 'a', id: 'b' } })
  t.match(routes.find('GET', 'http://api.example/backends/bk_1#x'), { values: { id: 'bk_1' } }, 'the absolute form')
  t.match(routes.find('GET', '/%62ackends/b%6B_1'), { values: { id: 'bk_1' } }, 'segments are decoded')
  t.match(routes.find('GET', '/backends/a%2Fb'), { values: { id: 'a/b' } }, 'an encoded slash separates nothing')
  for (const [method, url] of [
    ['POST', '/backends/bk_1'],
    ['head', '/backends/bk_1'],
    ['GET', '/backends/'],
    ['GET', '/backends/bk_1/'],
    ['GET', '//backends/bk_1'],
    ['GET', '/Backends/bk_1'],
    ['GET', '/backends/%zz'],
    ['GET', '/backends/%ff'],
    ['GET', '/constructor'],
    ['GET', '*'],
    ['GET', '']
  ] as const) {
    t.equal(routes.find(method, url), undefined, `${method} ${url}`)
  }
})

t.test('The methods of a path are those of every pattern that it can mean', async (t) => {
  const routes = new Routes()
  routes.add('GET', '/backends/mine', {}, nothing)
  routes.add('DELETE', '/backends/{id}', {}, nothing)
  t.same(routes.methodsOf('/backends/mine?x'), ['DELETE', 'GET', 'HEAD'])
  t.same(routes.methodsOf('/backends/other'), ['DELETE'])
  t.same(routes.methodsOf('/backends'), [])
  t.throws(() => routes.add('GET', '/backends/mine', {}, nothing), /GET \/backends\/mine is there already/)
})
