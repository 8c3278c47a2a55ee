// Who gets into a broker on Node.js, and to which topics: shared by aedes_server.mjs and mosca_server.cjs.

'use strict'

const { createHash, timingSafeEqual } = require('node:crypto')
const { readFileSync } = require('node:fs')

// Whether a user of that name has that password; `path` is a file of {name: {salt, digest}}, in hexadecimal.
function passwords (path) {
  const users = new Map(Object.entries(JSON.parse(readFileSync(path, 'utf8'))))
  return (name, password) => {
    const user = users.get(name)
    if (user === undefined || !password) return false
    const digest = createHash('sha256').update(Buffer.from(user.salt, 'hex')).update(password).digest()
    return timingSafeEqual(digest, Buffer.from(user.digest, 'hex'))
  }
}

// Whether one of the filters allows all that the topic, or the filter, asks for.
function isAllowed (filters, asked) {
  return filters.some(filter => covers(filter.split('/'), asked.split('/')))
}

function covers (allowed, asked) {
  for (let level = 0; level < allowed.length; level++) {
    if (allowed[level] === '#') return true
    if (level >= asked.length || asked[level] === '#') return false
    if (allowed[level] !== '+' && allowed[level] !== asked[level]) return false
  }
  return allowed.length === asked.length
}

// What tls.createServer wants: our certificate, and the authority of the clients', where they must have one.
function credentials (settings) {
  const own = { key: readFileSync(settings.key), cert: readFileSync(settings.certificate) }
  if (!settings.authority) return own
  return { ...own, ca: readFileSync(settings.authority), requestCert: true, rejectUnauthorized: true }
}

module.exports = { credentials, isAllowed, passwords }
