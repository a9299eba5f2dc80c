import t from 'tap'
import { conformance } from './conformance.js'

t.test('over SQLite', (t) => conformance(t, ':memory:'))
