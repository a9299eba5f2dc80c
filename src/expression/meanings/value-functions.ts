import type { FunctionMeaning } from './text-functions.js'

const local = (text: string) => `${text} In UTC, or in the zone that is named ("Europe/Berlin", "+02:00").`

/** Descriptions of the functions of requests, numbers, times, lists, maps and addresses. */
export const VALUE_FUNCTIONS: Readonly<Record<string, FunctionMeaning>> = {
  bool: ['A text as a truth value.', "bool('true')", 'true'],
  bytes: ['The UTF-8 form of a text.', "size(bytes('é'))", '2'],
  'bytes.size': ['How many bytes there are.', "b'abc'.size()", '3'],
  double: ['A number as a double; a text is read as one.', "double('1.5') + double(1)", '2.5'],
  duration: ['A duration of a text such as 1h30m, or of seconds.', "duration('1h30m') > duration(60)", 'true'],
  dyn: ['The same value, whose type is looked at when the expression runs.', 'dyn(1) == 1', 'true'],
  getQueryParam: [
    'The values of a parameter of the query, decoded, in their order; empty when it has none of that name.',
    "getQueryParam('q')",
    '["cats"]'
  ],
  getReqCookie: [
    'The cookie of the request with this name, with name and value. An error of kind absent when there is none.',
    "getReqCookie('session').value",
    '"abc"'
  ],
  getReqHeader: [
    'The values of a header field of the request, by its name without regard to case; empty when there are none.',
    "getReqHeader('X-Tier')",
    '["gold"]'
  ],
  getResCookie: [
    'The cookie that the response sets with this name. An error of kind absent when there is none.',
    "getResCookie('seen').value",
    '"1"'
  ],
  getResHeader: [
    'The values of a header field of the response, by its name without regard to case; empty when there are none.',
    "getResHeader('Content-Type')",
    '["text/plain"]'
  ],
  'duration.getHours': ['A duration in whole hours.', "duration('90m').getHours()", '1'],
  'duration.getMilliseconds': [
    'The milliseconds of a duration beyond its whole seconds.',
    "duration('1.5s').getMilliseconds()",
    '500'
  ],
  'duration.getMinutes': ['A duration in whole minutes.', "duration('90s').getMinutes()", '1'],
  'duration.getSeconds': ['A duration in whole seconds.', "duration('2m').getSeconds()", '120'],
  'timestamp.getDate': [local('Day of the month, from 1.'), "timestamp('2026-11-20T12:30:15Z').getDate()", '20'],
  'timestamp.getDayOfMonth': [
    local('Day of the month, from 0.'),
    "timestamp('2026-11-20T12:30:15Z').getDayOfMonth()",
    '19'
  ],
  'timestamp.getDayOfWeek': [
    local('Day of the week, Sunday is 0.'),
    "timestamp('2026-11-20T12:30:15Z').getDayOfWeek()",
    '5'
  ],
  'timestamp.getDayOfYear': [
    local('Day of the year, from 0.'),
    "timestamp('2026-11-20T12:30:15Z').getDayOfYear()",
    '323'
  ],
  'timestamp.getFullYear': [local('Year.'), "timestamp('2026-11-20T12:30:15Z').getFullYear()", '2026'],
  'timestamp.getHours': [local('Hour, 0 to 23.'), "timestamp('2026-11-20T12:30:15Z').getHours('Europe/Berlin')", '13'],
  'timestamp.getMilliseconds': [
    local('Milliseconds, 0 to 999.'),
    "timestamp('2026-11-20T12:30:15.250Z').getMilliseconds()",
    '250'
  ],
  'timestamp.getMinutes': [local('Minute, 0 to 59.'), "timestamp('2026-11-20T12:30:15Z').getMinutes()", '30'],
  'timestamp.getMonth': [local('Month, January is 0.'), "timestamp('2026-11-20T12:30:15Z').getMonth()", '10'],
  'timestamp.getSeconds': [local('Second, 0 to 59.'), "timestamp('2026-11-20T12:30:15Z').getSeconds()", '15'],
  hasQueryParam: ['Does the query have a parameter of this name?', "hasQueryParam('q')", 'true'],
  hasReqCookie: ['Does the request have a cookie of this name?', "hasReqCookie('session')", 'true'],
  hasReqHeader: ['Does the request have a header field of this name?', "hasReqHeader('x-tier')", 'true'],
  hasResCookie: ['Does the response set a cookie of this name?', "hasResCookie('seen')", 'true'],
  hasResHeader: ['Does the response have a header field of this name?', "hasResHeader('etag')", 'false'],
  inCidrRange: [
    'Does the address lie in the network? False when one of the two is none.',
    "inCidrRange('10.1.2.3', '10.0.0.0/8')",
    'true'
  ],
  inCidrRanges: [
    'Does the address lie in one of the networks?',
    "inCidrRanges('10.1.2.3', ['192.0.2.0/24', '10.0.0.0/8'])",
    'true'
  ],
  int: [
    'A number, cut towards zero, as a whole number; a text is read as one; a timestamp is in seconds since 1970, a duration in seconds.',
    "int('42') + int(1.9)",
    '43'
  ],
  ipPrefix: [
    'The network of an address: as many bits as the second number (IPv4) or the third one (IPv6) says. A key for all addresses of one client.',
    "ipPrefix('2001:db8:1:2::7', 32, 56)",
    '"2001:db8:1::/56"'
  ],
  isPrivateIp: ['Is the text an IPv4 address of a private network (RFC 1918)?', "isPrivateIp('192.168.1.4')", 'true'],
  'list.encodeJson': ['The list as JSON.', '[1, 2].encodeJson()', '"[1,2]"'],
  'list.flatten': [
    'The items with those of inner lists in their place, one level deep or as many as the number says.',
    '[1, [2, [3]]].flatten(2)',
    '[1,2,3]'
  ],
  'list.size': ['How many items there are.', '[1, 2].size()', '2'],
  'list.distinct': ['The items without those that equal an earlier one.', '[1, 2, 1].distinct()', '[1,2]'],
  'list.slice': [
    'The items from the first position up to, and without, the second one.',
    '[1, 2, 3, 4].slice(1, 3)',
    '[2,3]'
  ],
  'list.sort': ['The items in their order; all of one type that has an order.', '[3, 1, 2].sort()', '[1,2,3]'],
  'list.join': ['The texts one after the other, with the separator between them.', "['a', 'b'].join('-')", '"a-b"'],
  'lists.range': ['The whole numbers from 0 up to, and without, the number.', 'lists.range(3)', '[0,1,2]'],
  'map.encodeJson': ['The map as JSON.', "{'a': 1}.encodeJson()", '"{\\"a\\":1}"'],
  'map.encodeQueryString': ['The map as a query.', "{'a': 'b c'}.encodeQueryString()", '"a=b+c"'],
  'map.size': ['How many entries there are.', "{'a': 1}.size()", '1'],
  'rand.double': ['A random number from 0 up to, and without, 1.', 'rand.double() < 1.0', 'true'],
  'rand.int': [
    'A random whole number: 0 or 1, or from the first number to the second one, both possible.',
    'rand.int(1, 6) <= 6',
    'true'
  ],
  'secrets.get': [
    'A secret, by the names of its vault and of itself. It never appears in logs or explanations.',
    "secrets.get('main', 'key') != ''",
    'true'
  ],
  size: ['How many characters, bytes, items or entries there are.', "size('sluice')", '6'],
  timestamp: [
    'An instant of a text of RFC 3339, or of seconds since 1970.',
    "timestamp('2026-11-20T12:30:15Z') > timestamp(0)",
    'true'
  ],
  uint: ['A number, cut towards zero, as a whole number without sign; a text is read as one.', 'uint(7) == 7u', 'true']
}
