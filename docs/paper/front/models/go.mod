// Networks alone: a module of its own, so that go install does not bring them.
module selfheal/docs/paper/front/models

go 1.26
